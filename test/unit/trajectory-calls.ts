// Makes builder inputs out of toy ids, the way the golden cases are written.

import type { CallRecord } from '../../src/contract/call.ts'
import { callId, replicaId, sessionId } from '../../src/contract/ids.ts'
import type { Trace } from '../../src/contract/result.ts'
import { wholeSpan } from '../../src/proxy/engines/weight-spans.ts'
import type { BuilderCall, BuilderInput } from '../../src/trajectory/builder.ts'

export type ToyCall = {
  readonly id?: string
  readonly p: readonly number[]
  readonly r: readonly number[]
  /** Per sampled token; -0.5 everywhere unless given; null for none at all. */
  readonly l?: readonly number[] | null
  readonly record?: Partial<CallRecord>
}

export const SESSION = sessionId('00000000-0000-4000-8000-000000000001')

/** The n-th call is named a, b, c, … unless it names itself. */
export function toyCall(toy: ToyCall, sequence: number): BuilderCall {
  const id = toy.id ?? String.fromCharCode(97 + sequence)
  const logprobs = toy.l === null ? null : Float32Array.from(toy.l ?? toy.r.map(() => -0.5))
  const record: CallRecord = {
    id: callId(id),
    session: SESSION,
    attempt: 1,
    sequence,
    dialect: 'openai-chat',
    lineage: null,
    modelRequested: 'main-model',
    modelServed: 'served',
    engine: 'vllm',
    replica: replicaId('r0'),
    streamed: false,
    status: 'ok',
    httpStatus: 200,
    finishReason: 'stop',
    delivery: 'yes',
    digest: `digest-${id}`,
    retryOf: null,
    promptMessages: [],
    responseMessage: null,
    tools: null,
    toolCount: 0,
    maxTokensRequested: null,
    sampling: { temperature: 1, topP: null, topK: null, seed: null, maxTokens: null },
    parameters: 0,
    logprobMode: 'raw',
    weightVersion: 'w1',
    usage: null,
    captureError: null,
    diagnostics: [],
    startedAtMs: sequence * 1_000,
    durationMs: 10,
    error: null,
    weightSpans: wholeSpan(toy.record?.weightVersion === undefined ? 'w1' : toy.record.weightVersion, toy.r.length),
    ...toy.record,
  }
  return { record, promptIds: Int32Array.from(toy.p), sampledIds: Int32Array.from(toy.r), logprobs }
}

export function toyInput(calls: readonly ToyCall[], messages: readonly unknown[] = []): BuilderInput {
  return {
    sessionId: SESSION,
    taskId: 'task-1',
    attempt: 1,
    calls: calls.map(toyCall),
    messages: messages.map((message) => JSON.stringify(message)),
    taskMetadata: { group_id: 'g1' },
  }
}

export type ToyRow = { readonly prompt: readonly number[]; readonly resp: readonly number[]; readonly mask: readonly number[] }

export const toyRow = (trace: Trace): ToyRow => ({
  prompt: [...trace.prompt_ids],
  resp: [...trace.response_ids],
  mask: [...trace.loss_mask],
})
