// What a door tells of its calls while they go on: a few at a time, each with its own texts.
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { callId, knownSessionId, replicaId } from '../../src/contract/ids.ts'
import { type Capture, openCapture } from '../../src/proxy/capture.ts'
import { type Arena, openArena } from '../../src/tokens/arena.ts'

let arena: Arena
let capture: Capture
beforeEach(() => {
  arena = openArena({ maxSlabs: 1, slabTokens: 1_024, blockTokens: 16 })
  capture = openCapture({ session: knownSessionId('s'), attempt: 1, tokens: arena.openSession() })
})
afterEach(() => {
  capture.close()
  arena.close()
})

const OPENED = 8

/** One that tells what was said before, and is answered. */
function record(sequence: number): void {
  const said = Array.from({ length: sequence + 1 }, (_, at) => ({ role: 'user' as const, content: `question ${at}` }))
  capture.record(
    {
      id: callId(String(sequence)),
      sequence,
      dialect: 'openai-chat',
      lineage: null,
      digest: '',
      retryOf: null,
      normalised: {
        modelRequested: 'm',
        stream: false,
        maxTokensRequested: null,
        continues: null,
        request: { messages: said, tools: null, parameters: { seed: sequence } },
        diagnostics: [],
      },
      startedAtMs: 0,
      startedMs: 0,
    },
    {
      status: 'ok',
      httpStatus: 200,
      finishReason: 'stop',
      replica: replicaId('r'),
      modelServed: 'm',
      engine: 'vllm',
      logprobMode: 'raw',
      parameters: { seed: sequence },
      message: { role: 'assistant', content: `answer ${sequence}` },
      tokens: null,
      weightVersion: null,
      weightSpans: [],
      usage: null,
      diagnostics: [],
      error: null,
      isUpstreamFailure: false,
      endedMs: 1,
    },
  )
}

/** A part as its reader sees it: each call by its sequence number, with its texts. */
function read(from: number, limit: number, maxText = 1_000_000) {
  const { calls, messages, ...place } = capture.part({ from, limit, maxText }, OPENED)
  const textAt = (index: number | null): unknown => (index === null ? null : JSON.parse(messages[index] ?? ''))
  return {
    ...place,
    texts: messages.length,
    calls: calls.map((call) => ({
      sequence: call.sequence,
      asked: call.promptMessages.map((index) => (textAt(index) as { content: string }).content),
      answered: (textAt(call.responseMessage) as { content: string }).content,
      seed: (textAt(call.parameters) as { seed: number }).seed,
    })),
  }
}

const told = (sequence: number) => ({
  sequence,
  asked: Array.from({ length: sequence + 1 }, (_, at) => `question ${at}`),
  answered: `answer ${sequence}`,
  seed: sequence,
})

describe('a part of the calls', () => {
  it('has those of its place, in the order of arrival, with the texts that they name and no other', () => {
    for (const sequence of [3, 0, 1, 2, 5]) record(sequence)
    expect(read(2, 2)).toEqual({ from: 2, until: 4, total: OPENED, texts: 4 + 2 + 2, calls: [told(2), told(3)] })
    // The fourth is in flight, the sixth was not asked for.
    expect(read(4, 2)).toMatchObject({ until: 6, calls: [told(5)] })
    expect(read(6, 100)).toMatchObject({ from: 6, until: OPENED, calls: [], texts: 0 })
    expect(read(100, 1)).toMatchObject({ from: 100, until: 100, calls: [] })
  })

  it('ends early where its texts are long, and has one call at least', () => {
    for (let sequence = 0; sequence < 5; sequence += 1) record(sequence)
    const seen: number[] = []
    for (let from = 0; from < 5; ) {
      const { calls, until } = read(from, 5, 0)
      expect(calls).toHaveLength(1)
      seen.push(...calls.map(({ sequence }) => sequence))
      from = until
    }
    expect(seen).toEqual([0, 1, 2, 3, 4])
  })
})
