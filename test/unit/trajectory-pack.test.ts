// Packing and rendering: what goes in comes out, in buffers of its own size and in Polar's JSON.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SessionResult, Trace } from '../../src/contract/result.ts'
import { packSession, packTrajectory, unpackSession, unpackTrajectory } from '../../src/trajectory/pack.ts'
import { float32Text, renderSession, renderTask, toBytes } from '../../src/trajectory/render.ts'

const trace = (more: Partial<Trace> = {}): Trace => ({
  prompt_ids: Int32Array.of(1, 2, 151_643),
  response_ids: Int32Array.of(5, 2_147_483_647),
  loss_mask: Uint8Array.of(1, 0),
  prompt_messages: [{ role: 'user', content: 'Grüße, "Welt"\n\u2028😀' }],
  response_messages: [{ role: 'assistant', content: null, tool_calls: [{ function: { arguments: '{"a": 1}' } }] }],
  tools: [{ type: 'function' }],
  finish_reason: 'stop',
  response_logprobs: Float32Array.of(-0.1, 0),
  reward: 0.5,
  metadata: { turns: [{ call_id: 'a' }], note: 'ä' },
  ...more,
})

const session = (traces: readonly Trace[]): SessionResult => ({
  session_id: 's',
  task_id: 't',
  status: 'COMPLETED',
  trajectory: { status: 'COMPLETED', metadata: { builder: 'per_request' }, traces },
  timing: { run_ms: 1.5 },
  node_id: 'gw',
  metadata: { k: [1] },
})

/** What the JSON of a result must hold: typed arrays as plain numbers. */
function plain(result: SessionResult): unknown {
  const traces = result.trajectory.traces.map((row) => ({
    ...row,
    prompt_ids: [...row.prompt_ids],
    response_ids: [...row.response_ids],
    loss_mask: [...row.loss_mask],
    response_logprobs: row.response_logprobs === null ? null : [...row.response_logprobs].map((logprob) => Number(float32Text(logprob))),
  }))
  return { ...result, trajectory: { ...result.trajectory, traces } }
}

const EMPTY = trace({
  prompt_ids: new Int32Array(0),
  response_ids: new Int32Array(0),
  loss_mask: new Uint8Array(0),
  response_logprobs: null,
  tools: null,
  finish_reason: null,
  reward: null,
  prompt_messages: [],
  response_messages: [],
  metadata: {},
})
const SESSIONS = [session([]), session([EMPTY]), session([trace()]), session([trace(), EMPTY, trace({ reward: -1 })])]

describe('packing', () => {
  it.each(SESSIONS.map((result) => [result.trajectory.traces.length, result] as const))(
    'gives a session of %i traces back',
    (_, result) => {
      expect(unpackSession(packSession(result))).toEqual(result)
      expect(unpackTrajectory(packTrajectory(result.trajectory))).toEqual(result.trajectory)
    },
  )

  it('gives arrays that own their memory and may be changed', () => {
    const bytes = packSession(session([trace()]))
    const first = unpackSession(bytes).trajectory.traces[0]!
    first.prompt_ids[0] = 99
    expect(unpackSession(bytes).trajectory.traces[0]?.prompt_ids[0]).toBe(1)
    expect(first.prompt_ids.byteOffset).toBe(0)
  })

  it('reads views that begin anywhere', () => {
    const ids = Int32Array.of(9, 1, 2, 3).subarray(1)
    expect([
      ...unpackTrajectory(packTrajectory({ status: 'COMPLETED', metadata: {}, traces: [trace({ prompt_ids: ids })] })).traces[0]!
        .prompt_ids,
    ]).toEqual([1, 2, 3])
  })

  it('holds a message once, however many traces tell it', () => {
    const message = { role: 'user', content: 'x'.repeat(10_000) }
    const traces = Array.from({ length: 50 }, () => trace({ prompt_messages: [message, { ...message }] }))
    expect(packSession(session(traces)).byteLength).toBeLessThan(30_000)
  })

  it('fills its buffer exactly, so that it can be transferred', () => {
    const [small, large] = [packSession(session([])), packSession(session([trace({ prompt_ids: new Int32Array(10_000) })]))]
    expect(large.byteLength - small.byteLength).toBeLessThan(42_000)
    const moved = structuredClone(large, { transfer: [large] })
    expect(unpackSession(moved).trajectory.traces[0]?.prompt_ids).toHaveLength(10_000)
  })

  it('refuses bytes of another kind', () => {
    expect(() => unpackSession(packTrajectory({ status: 'COMPLETED', metadata: {}, traces: [] }))).toThrow(/no packed session/)
    expect(() => unpackTrajectory(new ArrayBuffer(1))).toThrow(/no packed trajectory/)
  })
})

describe('rendering', () => {
  it.each(SESSIONS.map((result) => [result.trajectory.traces.length, result] as const))(
    "writes a session of %i traces as Polar's JSON",
    (_, result) => {
      expect(JSON.parse([...renderSession(packSession(result))].join(''))).toEqual(plain(result))
    },
  )

  it.each([0, 1, 3])('writes a task over %i sessions', (count) => {
    const sessions = SESSIONS.slice(0, count)
    const head = { task_id: 't', status: 'completed', total_sessions: 4, completed_sessions: count }
    const bytes = toBytes(renderTask(head, sessions.map(packSession)))
    expect(JSON.parse(Buffer.from(bytes).toString('utf8'))).toEqual({ ...head, results: sessions.map(plain), result_paths: [] })
  })

  it('opens the sessions of a task one at a time', () => {
    const opened: number[] = []
    function* packed() {
      for (const at of [0, 1, 2]) {
        opened.push(at)
        yield packSession(session([]))
      }
    }
    const pieces = renderTask({ task_id: 't', status: 'completed' }, packed())
    pieces.next()
    pieces.next()
    expect(opened).toEqual([0])
  })

  it('writes long arrays in bounded pieces', () => {
    const long = session([
      trace({
        response_ids: Int32Array.from({ length: 100_000 }, (_, at) => at),
        loss_mask: new Uint8Array(100_000),
        response_logprobs: new Float32Array(100_000).fill(-0.1),
      }),
    ])
    const pieces = [...renderSession(packSession(long))]
    expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(16_384 * 12)
    expect(JSON.parse(pieces.join(''))).toEqual(plain(long))
  })

  it.each([
    [-0.1, '-0.1'],
    [0, '0'],
    [-0, '0'],
    [-1e-7, '-1e-7'],
    [-16.635_532_4, '-16.635532'],
    [-100, '-100'],
  ])('writes the float32 of %d as %s', (value, text) => {
    expect(float32Text(Math.fround(value))).toBe(text)
  })

  it('writes every float32 so that it is read back the same', () => {
    fc.assert(
      fc.property(
        fc.float({ noNaN: true, noDefaultInfinity: true, max: 0 }),
        (value) => Math.fround(Number(float32Text(value))) === Math.fround(value),
      ),
      { numRuns: 5_000 },
    )
  })
})
