// New weights while a session runs: each token is known by the weights it was drawn from, and what a pause cut off is gone on with or never trained.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { readGguf, writeGguf } from '../../examples/tiny-policy/gguf.ts'
import { openScorer, type Scorer, TOLERANCE } from '../lib/scorer.ts'
import { readWeights } from '../lib/scorer-weights.ts'
import { checkAgainstWire, deltasAt, expectCompleted, sum } from '../tokens/rescoring.ts'
import { program } from '../tokens/sources.ts'
import { MODEL_FILE, openRealEngine, openStand, type Rollout, type Stand, TASK_MS } from '../tokens/stand.ts'

const VERSIONS = ['step-1', 'step-2', 'step-3'] as const
const [FIRST, SECOND, THIRD] = VERSIONS
/** Between two turns the weights change while nothing is sampled; in a later one a generation is cut off. */
const [QUIET_TURN, CUT_TURN] = [3, 5]
const VERSION_OF_TURN = [FIRST, FIRST, SECOND, SECOND, THIRD, THIRD]
const TEMPERATURE = 0.3
/** What was drawn of the answer that is cut off must leave room for the rest of it, where it is gone on with. */
const MAX_TOKENS = { restart: 60, resume: 1_500 }
/** Tokens of another generation that runs beside the one to be cut off: by then that one has some, too. */
const BESIDE_TOKENS = 4
/**
 * Free sampling breaks chains, and ends a turn when it likes: sessions are sampled until one goes on in a row that it began under other
 * weights, and has so many tokens of each version that they tell the weights apart.
 */
const [MAX_SESSIONS, MIN_TOKENS] = [8, 12]

/** Weights as a step of training would leave them: all a little different. */
function trained(bytes: Uint8Array, step: number): Uint8Array {
  const read = readGguf(bytes)
  if (!read.ok) throw new Error(read.error)
  const tensors = read.file.tensors.map((tensor) => ({
    ...tensor,
    data: tensor.data.map((weight, at) => weight * (1 + 0.1 * Math.sin(at * step))),
  }))
  return writeGguf({ metadata: read.file.metadata, tensors })
}

describe.each(['restart', 'resume'] as const)('weights that change while a session runs, with %s', { timeout: TASK_MS }, (aborted) => {
  const folder = mkdtempSync(join(tmpdir(), 'polar-weights-'))
  const files = new Map<string, string>(VERSIONS.map((version) => [version, join(folder, `${version}.gguf`)]))
  let stand: Stand
  let rollout: Rollout

  beforeAll(async () => {
    for (const [step, file] of [...files.values()].entries()) writeFileSync(file, trained(readFileSync(MODEL_FILE), step))
    const engine = await openRealEngine('sglang', { modelPath: files.get(FIRST) ?? '', weightVersion: FIRST })
    stand = await openStand('sglang', engine, { weight_updates: { aborted } })
    const turns = VERSION_OF_TURN.length
    const met = new Set<number>()
    let updating: Promise<void> = Promise.resolve()
    stand.relay.onRequest(async ({ messages }) => {
      const turn = messages.length / 2
      if (met.has(turn)) return null
      met.add(turn)
      if (turn === QUIET_TURN) await update(engine.url, SECOND)
      if (turn !== CUT_TURN) return null
      updating = cutOff(engine.url)
      // It ends with the pause, not before.
      return { ignore_eos: true, max_tokens: aborted === 'resume' ? MAX_TOKENS.resume : 4_000 }
    })
    for (let session = 1; session === 1 || (session <= MAX_SESSIONS && !isTelling(rollout)); session++) {
      met.clear()
      if (session > 1) await update(engine.url, FIRST)
      rollout = await stand.run({ instruction: 'Talk.', agent: program('chat-loop.ts', turns, TEMPERATURE, MAX_TOKENS[aborted]) })
      await updating
    }
  }, 2 * TASK_MS)
  afterAll(async () => {
    await stand.close()
    rmSync(folder, { recursive: true, force: true })
  })

  async function update(engineUrl: string, version: string): Promise<void> {
    await post(engineUrl, '/pause_generation', { mode: 'abort' })
    await post(engineUrl, '/update_weights_from_disk', { model_path: files.get(version), weight_version: version })
    await post(engineUrl, '/continue_generation', {})
  }

  /** Once the engine has drawn something of the generation that it is about to get. */
  async function cutOff(engineUrl: string): Promise<void> {
    await vi.waitUntil(async () => /num_running_reqs\S* [1-9]/.test(await (await fetch(`${engineUrl}/metrics`)).text()), {
      timeout: 60_000,
      interval: 2,
    })
    const beside = { messages: [{ role: 'user', content: 'Talk.' }], stream: true, ignore_eos: true, max_tokens: 4_000 }
    const { body } = await post(engineUrl, '/v1/chat/completions', beside)
    let events = 0
    for await (const piece of body ?? []) {
      events += Buffer.from(piece).toString().split('data: ').length - 1
      if (events > BESIDE_TOKENS) break
    }
    await update(engineUrl, THIRD)
  }

  it('give the client one good answer in every turn, also in the one whose generation was cut off', () => {
    expectCompleted(rollout.sessions)
    const records = rollout.sessions.flatMap((session) => session.records)
    const isMixed = (at: number): boolean => aborted === 'resume' && at + 1 === CUT_TURN
    expect(records.map(({ status, weightVersion }) => [status, weightVersion])).toEqual(
      VERSION_OF_TURN.map((version, at) => ['ok', isMixed(at) ? null : version]),
    )
    const mixed = records.filter((_, at) => isMixed(at))
    expect(mixed.map(({ weightSpans }) => weightSpans.map(({ version }) => version))).toEqual(mixed.map(() => [SECOND, THIRD]))
    const wereCut = records.map(({ diagnostics }) => diagnostics.some(({ code }) => code === 'generation-aborted'))
    expect(wereCut).toEqual(VERSION_OF_TURN.map((_, at) => at + 1 === CUT_TURN))
  })

  it('leave nothing of the generation that was cut off in what is trained, unless it is the beginning of an answer', () => {
    const cut = rollout.wire.filter(({ finishReason }) => finishReason === 'abort')
    expect(cut.map(({ weightVersion }) => weightVersion)).toEqual([SECOND])
    expect(cut[0]?.sampledIds.length).toBeGreaterThan(0)
    const whole = rollout.wire.filter((generation) => !cut.includes(generation))
    if (aborted === 'restart') {
      expect(whole).toHaveLength(VERSION_OF_TURN.length)
      checkAgainstWire({ ...rollout, wire: whole })
      return
    }
    // It is the beginning of the turn that it was gone on with to.
    const turn = rollout.sessions.flatMap(({ traces }) =>
      traces.flatMap(({ metadata, response_ids: ids }) =>
        metadata.turns
          .filter(({ weight_version: version, trained }) => version === null && trained)
          .map(({ start, end }) => ids.slice(start, end)),
      ),
    )
    expect(turn).toHaveLength(1)
    expect(turn[0]?.slice(0, cut[0]?.sampledIds.length)).toEqual(cut[0]?.sampledIds)
    expect(turn[0]?.length).toBeGreaterThan(cut[0]?.sampledIds.length ?? 0)
  })

  it('are told of every token, and only those give it the logprob it has', () => {
    const scorers = new Map<string, Scorer>([...files].map(([version, file]) => [version, openScorer(readWeights(file))]))
    /** By version told, then by version of the scorer: the worst delta. */
    const worst = new Map<string, Map<string, number>>()
    let seen = 0
    for (const trace of rollout.sessions.flatMap(({ traces }) => traces)) {
      for (const { start, end, version } of trace.metadata.weight_versions) {
        const places = trace.loss_mask.flatMap((bit, at) => (bit === 1 && at >= start && at < end ? [at] : []))
        // Turns that are trained in another row.
        if (places.length === 0) continue
        seen += places.length
        const row = worst.get(version ?? 'none') ?? new Map<string, number>()
        worst.set(version ?? 'none', row)
        for (const [weights, scorer] of scorers) {
          const delta = Math.max(...deltasAt(trace, places, scorer, TEMPERATURE).map(Math.abs))
          row.set(weights, Math.max(row.get(weights) ?? 0, delta))
        }
      }
    }
    expect([...worst.keys()].toSorted()).toEqual(VERSIONS)
    for (const [told, row] of worst) {
      for (const [weights, delta] of row) {
        if (weights === told) expect(delta).toBeLessThanOrEqual(TOLERANCE)
        else expect(delta).toBeGreaterThan(100 * TOLERANCE)
      }
    }
    expect(seen).toBe(sum(rollout.sessions.map(({ stats }) => stats.trained_tokens)))
    expect(isTelling(rollout)).toBe(true)
  })
})

function isTelling({ sessions, wire }: Rollout): boolean {
  const whole = wire.filter(({ finishReason }) => finishReason !== 'abort')
  const tokensOf = (version: string) =>
    sum(whole.map(({ weightVersion, sampledIds }) => (weightVersion === version ? sampledIds.length : 0)))
  const hasRowOfTwo = sessions.some(({ traces }) => traces.some(({ metadata }) => metadata.weight_versions.length > 1))
  return hasRowOfTwo && VERSIONS.every((version) => tokensOf(version) >= MIN_TOKENS)
}

async function post(engineUrl: string, path: string, body: object): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  const reply = await fetch(engineUrl + path, { method: 'POST', headers, body: JSON.stringify(body) })
  if (!reply.ok) throw new Error(`${path}: ${await reply.text()}`)
  return reply
}
