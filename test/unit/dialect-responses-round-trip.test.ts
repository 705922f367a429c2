// OpenAI Responses answers that come back as history: the session puts back what was sampled, byte for byte.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { JsonObject } from '../../src/proxy/json.ts'
import { openRecall } from '../../src/proxy/recall.ts'
import { accepted, answer, CALL, call, formOf, IDENTITY, SAMPLES, TOOLS } from '../lib/responses-fixture.ts'

const go = { role: 'user', content: 'go' }

/** What an answer's items become when a client sends them back, ids and reasoning kept or dropped. */
describe('an answer that comes back as history', () => {
  const clients: readonly { name: string; keep: (item: JsonObject) => JsonObject | null }[] = [
    { name: 'every field', keep: (item) => item },
    { name: 'no ids (OpenCode)', keep: ({ id: _id, ...item }) => item },
    { name: 'no reasoning', keep: (item) => (item.type === 'reasoning' ? null : item) },
    { name: 'neither', keep: ({ id: _id, ...item }) => (item.type === 'reasoning' ? null : item) },
  ]
  it.each(clients)('is put back byte for byte by the session, with $name', ({ keep }) => {
    for (const sample of SAMPLES) {
      const recall = openRecall(() => 'new')
      const told = { ...sample, message: recall.remember(CALL, sample.message, formOf({ tools: TOOLS }).echo) }
      const { output } = JSON.parse(formOf({ tools: TOOLS }).plain(told, IDENTITY))
      const items = output.map(keep).filter((item: JsonObject | null) => item !== null)
      const read = accepted({ input: [go, ...items, go], tools: TOOLS })
      expect(read.request.messages).toHaveLength(3)
      expect(read.diagnostics.filter(({ code }) => code === 'signature-unknown')).toEqual([])
      expect(recall.restore(read.request.messages).messages[1]).toEqual(sample.message)
    }
  })

  it('is put back byte for byte whatever was sampled', () => {
    const text = fc.string({ unit: 'binary', maxLength: 30 })
    const names = fc.constantFrom('f', 'apply_patch', 'mcp__files____status', 'mcp__files____write')
    const shapes = fc.oneof(
      text,
      fc.json(),
      text.map((value) => JSON.stringify({ patch: value })),
    )
    fc.assert(
      fc.property(fc.option(text), text, fc.array(fc.tuple(names, shapes), { maxLength: 3 }), (content, reasoning, made) => {
        const sample = answer({
          content,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(made.length === 0 ? {} : { tool_calls: made.map(([name, args], index) => call(`c${index}`, args, name)) }),
        })
        const recall = openRecall(() => 'new')
        recall.remember(CALL, sample.message, formOf({ tools: TOOLS }).echo)
        const { output } = JSON.parse(formOf({ tools: TOOLS }).plain(sample, IDENTITY))
        const { request } = accepted({ input: [go, ...output, go], tools: TOOLS })
        expect(recall.restore(request.messages).messages[1]).toEqual(sample.message)
      }),
    )
  })
})

describe('a shell call of any spelling comes back as it was sampled', () => {
  const shells = [{ type: 'local_shell' }, { type: 'shell' }]
  it.each([
    ['local_shell', '{"command":"ls"}'],
    ['local_shell', '{"command": ["ls"], "note": "x"}'],
    ['local_shell', '{"command": ["bash", "-lc", "ls"], "timeout_ms": 10}'],
    ['local_shell', 'ls'],
    ['shell', '{"commands": "ls"}'],
    ['shell', '{"commands": ["ls"], "note": "x"}'],
    ['shell', '[]'],
  ])('%s %s', (name, args) => {
    const sample = answer({ content: null, tool_calls: [call('c1', args, name)] })
    const recall = openRecall(() => 'new')
    recall.remember(CALL, sample.message, formOf({ tools: shells }).echo)
    const { output } = JSON.parse(formOf({ tools: shells }).plain(sample, IDENTITY))
    const { request } = accepted({ input: [go, ...output, go], tools: shells })
    expect(recall.restore(request.messages).messages[1]).toEqual(sample.message)
  })
})
