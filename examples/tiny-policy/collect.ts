// Collects training data: the scripted policy plays the demo's task through real agent CLIs, and the node's own traces are kept.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { loadQwen } from '../../src/engine/scripted/qwen.ts'
import { AGENTS, type AgentName, taskInOtherWords } from './agents.ts'
import { encodeSpans, packSequences, type Sequence, type Span } from './corpus.ts'
import { POLICY_SHAPE } from './make.ts'
import { openStage, spansOf } from './sessions.ts'
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
  const { encode } = loadTinyVocabulary(POLICY_SHAPE.merges)
  const sequences: Sequence[] = []
  for (const [index, spans] of (await playTasks(options, say)).entries()) {
    for (let telling = 0; telling < options.tellings; telling += 1) {
      const retell = openVariation(spans[0]?.text ?? '', `${options.seed} ${index} ${telling}`)
      const told = spans.map((span) => ({ ...span, text: retell(span.text) }))
      const sequence = encodeSpans(told, encode)
      if (telling === 0) checkIds(sequence, told, encode)
      sequences.push(sequence)
    }
  }
  return sequences
}

async function playTasks({ tasks, seed }: Options, say: (line: string) => void): Promise<readonly (readonly Span[])[]> {
  const { decode } = await loadQwen()
  const engine = await openScriptedEngine({ answers: openTeacher(seed), model: 'demo-policy' })
  const stage = await openStage(engine.url)
  const conversations: (readonly Span[])[] = []
  for (const agent of AGENTS) {
    let [solved, played] = [0, 0]
    for (let number = 0; number < tasks[agent]; number += 1) {
      for (const session of await stage.play(agent, taskInOtherWords(agent, number), SAMPLES)) {
        played += 1
        if (session.metadata.polar_node?.reward === 1) solved += 1
        conversations.push(...spansOf(session, decode))
      }
    }
    say(`${agent}: ${played} sessions, ${solved} solved`)
  }
  await stage.close()
  await engine.close()
  return conversations
}

/** The engine will encode prompts whole. */
function checkIds({ ids }: Sequence, spans: readonly Span[], encode: (text: string) => readonly number[]): void {
  const whole = encode(spans.map(({ text }) => text).join(''))
  const first = whole.findIndex((id, at) => id !== ids[at])
  if (first !== -1 || whole.length !== ids.length) throw new Error(`a span merges with the one before it, near token ${first}`)
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
