// Tries a policy: complete rollouts of the demo's task through real agent CLIs, and what became of them.
import { parseArgs } from 'node:util'
import { openEmbeddedEngine } from '../../src/engine/embedded/engine.ts'
import { parseAnswer } from '../../src/engine/serve/answer-text.ts'
import { AGENTS, type AgentName, demoTask } from './agents.ts'
import { POLICY_SHAPE } from './make.ts'
import { openStage, type Session, spansOf } from './sessions.ts'
import { loadTinyVocabulary } from './vocabulary.ts'

type Verdict = {
  readonly solved: boolean
  readonly completed: boolean
  readonly wellFormed: boolean
  readonly turns: number
  readonly tokens: number
  /** Tokens of the first call's prompt. */
  readonly prompt: number
}

const { decode } = loadTinyVocabulary(POLICY_SHAPE.merges)

function judge(session: Session): Verdict {
  const traces = spansOf(session, decode)
  const answers = traces.flatMap((spans) => spans.filter(({ weight }) => weight === 1).map(({ text }) => text))
  const masks = session.trajectory.traces.flatMap(({ loss_mask }) => loss_mask)
  return {
    solved: session.metadata.polar_node?.reward === 1,
    completed: session.metadata.polar_node?.outcome === 'completed',
    wellFormed: answers.every(isWellFormed),
    turns: answers.length,
    tokens: masks.filter((mask) => mask === 1).length,
    prompt: Math.min(...session.trajectory.traces.map(({ prompt_ids }) => prompt_ids.length)),
  }
}

/** It ends its turn, and whatever it begins as a tool call is one. */
function isWellFormed(answer: string): boolean {
  const [said, ...after] = answer.split('<|im_end|>')
  const parts = parseAnswer(said ?? '', true)
  return after.join('') === '' && after.length === 1 && parts.every((part) => part.kind === 'tool-call' || !/tool_call|<\|/.test(part.text))
}

function summary(agent: AgentName, verdicts: readonly Verdict[]): string {
  const share = (count: (verdict: Verdict) => boolean): string => `${Math.round((100 * verdicts.filter(count).length) / verdicts.length)} %`
  const mean = (value: (verdict: Verdict) => number): string =>
    (verdicts.reduce((sum, verdict) => sum + value(verdict), 0) / verdicts.length).toFixed(1)
  return [
    `${agent}: ${verdicts.length} sessions`,
    `solved ${share(({ solved }) => solved)}`,
    `completed ${share(({ completed }) => completed)}`,
    `well-formed ${share(({ wellFormed }) => wellFormed)}`,
    `turns ${mean(({ turns }) => turns)}`,
    `sampled tokens ${mean(({ tokens }) => tokens)}`,
    `first prompt ${mean(({ prompt }) => prompt)}`,
  ].join(', ')
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: {
      sessions: { type: 'string', default: '40' },
      seed: { type: 'string', default: '1' },
      show: { type: 'boolean', default: false },
    },
    allowPositionals: true,
  })
  const [modelPath = 'assets/tiny-policy.gguf'] = positionals
  const opened = await openEmbeddedEngine({ modelPath, model: 'demo-policy', seed: Number(values.seed) })
  if (!opened.ok) throw new Error(opened.error)
  const stage = await openStage(opened.engine.url)
  for (const agent of AGENTS) {
    const sessions = await stage.play(agent, demoTask(agent), Number(values.sessions))
    process.stdout.write(`${summary(agent, sessions.map(judge))}\n`)
    if (!values.show) continue
    for (const session of sessions) {
      for (const spans of spansOf(session, decode)) {
        process.stdout.write(`\n${session.session_id}: reward ${session.metadata.polar_node?.reward}\n`)
        process.stdout.write(`${spans.map(({ text, weight }) => (weight === 1 ? `⟦${text}⟧` : text)).join('')}\n`)
      }
    }
  }
  await stage.close()
  await opened.engine.close()
}
