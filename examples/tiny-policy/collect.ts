// Collects training data: the scripted policy plays the demo's task through real agent CLIs, and the node's own traces are kept.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { agentOfHarness, ensureAgent } from '../../scripts/agents.ts'
import { type ControlClient, openControlClient } from '../../src/cli/control-client.ts'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import { type Listener, openListener, type TaskResult, type Trace } from '../demo/listener.ts'
import { startNode } from '../demo/processes.ts'
import { AGENTS, type AgentName, taskInOtherWords } from './agents.ts'
import { encodeSpans, packSequences, type Sequence, type Span } from './corpus.ts'
import { POLICY_SHAPE } from './make.ts'
import { openTeacher } from './teacher.ts'
import { openVariation } from './variation.ts'
import { loadTinyVocabulary } from './vocabulary.ts'

/** Sessions of one task. */
const SAMPLES = 8

type Options = {
  readonly tasks: Readonly<Record<AgentName, number>>
  /** Each conversation is told this often, with other folders and dates. */
  readonly tellings: number
  readonly seed: number
}

/** The sessions of `tasks` tasks through each agent CLI, encoded for the demo's policy. */
async function collect(options: Options, say: (line: string) => void): Promise<readonly Sequence[]> {
  const vocabulary = loadTinyVocabulary(POLICY_SHAPE.merges)
  const sequences: Sequence[] = []
  const conversations = await playSessions(options, say)
  for (const [index, spans] of conversations.entries()) {
    for (let telling = 0; telling < options.tellings; telling += 1) {
      const retell = openVariation(spans[0]?.text ?? '', `${options.seed} ${index} ${telling}`)
      const told = spans.map((span) => ({ ...span, text: retell(span.text) }))
      sequences.push(encodeSpans(told, vocabulary.encode))
    }
  }
  return sequences
}

async function playSessions({ tasks, seed }: Options, say: (line: string) => void): Promise<readonly (readonly Span[])[]> {
  for (const agent of AGENTS) await ensureAgent(agentOfHarness(agent))
  const qwen = await loadQwen()
  const folder = mkdtempSync(join(tmpdir(), 'polar-collect-'))
  const engine = await openScriptedEngine({ answers: openTeacher(seed), model: 'demo-policy' })
  const closing: (() => Promise<void>)[] = [engine.close]
  try {
    const node = await startNode(folder, { url: engine.url, model: 'demo-policy', about: 'scripted' }, new AbortController().signal)
    closing.unshift(node.stop)
    const listener = await openListener()
    closing.unshift(listener.close)
    const client = openControlClient(node.url, node.token)
    const conversations: (readonly Span[])[] = []
    for (const agent of AGENTS) {
      let solved = 0
      let sessions = 0
      for (let number = 0; number < tasks[agent]; number += 1) {
        const task = { ...taskInOtherWords(agent, number), task_id: `collect-${agent}-${number}`, num_samples: SAMPLES }
        for (const session of (await play(client, listener, task)).results) {
          sessions += 1
          if (session.metadata.polar_node?.reward === 1) solved += 1
          for (const trace of session.trajectory.traces) conversations.push(spansOf(trace, qwen.decode))
        }
      }
      say(`${agent}: ${sessions} sessions, ${solved} solved`)
    }
    return conversations
  } finally {
    for (const close of closing) await close()
    rmSync(folder, { recursive: true, force: true })
  }
}

type NamedTask = Readonly<Record<string, unknown>> & { readonly task_id: string }

/** One task to its end. */
async function play(client: ControlClient, listener: Listener, task: NamedTask): Promise<TaskResult> {
  const submitted = await client.post('/rollout/task/submit', { ...task, callback_url: listener.url })
  if (submitted.status !== 200) throw new Error(`the task was not accepted: ${submitted.detail}`)
  return (await listener.received(task.task_id)).result
}

/** The prompt, then what was sampled and what came in between, in turn. */
function spansOf(trace: Trace, decode: (ids: readonly number[]) => string): readonly Span[] {
  const spans: Span[] = [{ text: decode(trace.prompt_ids), weight: 0 }]
  const { response_ids: ids, loss_mask: mask } = trace
  for (let start = 0; start < ids.length; ) {
    const weight = mask[start] ?? 0
    const change = mask.indexOf(1 - weight, start)
    const end = change === -1 ? ids.length : change
    spans.push({ text: decode(ids.slice(start, end)), weight })
    start = end
  }
  return spans
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    options: {
      pi: { type: 'string', default: '24' },
      claude: { type: 'string', default: '12' },
      tellings: { type: 'string', default: '6' },
      seed: { type: 'string', default: '1' },
    },
    allowPositionals: true,
  })
  const [path] = positionals
  if (path === undefined) {
    process.stderr.write('usage: node examples/tiny-policy/collect.ts [--pi tasks] [--claude tasks] [--tellings n] [--seed n] <file.bin>\n')
    process.exit(2)
  }
  const say = (line: string): void => void process.stdout.write(`${line}\n`)
  const tasks = { pi: Number(values.pi), claude_code: Number(values.claude) }
  const sequences = await collect({ tasks, tellings: Number(values.tellings), seed: Number(values.seed) }, say)
  writeFileSync(path, packSequences(sequences))
  const lengths = sequences.map(({ ids }) => ids.length)
  const sampled = sequences.reduce((sum, { weights }) => sum + weights.filter((weight) => weight !== 0).length, 0)
  say(`${path}: ${sequences.length} sequences of ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens, ${sampled} of them sampled`)
}
