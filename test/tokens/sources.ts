// Where trained tokens come from: agent CLIs that stream and loops on the vendors' SDKs that do not, all at the demo's task.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { MODEL, repository } from './stand.ts'

type Task = Readonly<Record<string, unknown>>

type DemoTask = Task & {
  readonly agent: Readonly<Record<string, unknown>> & { readonly settings: { readonly system_prompt: string } }
}

export type Source = { readonly name: string; readonly isStreamed: boolean; readonly task: Task }

const FIXTURES = join(repository, 'test/tokens/fixtures')

/** The demo's own task, with its folder where it is; nothing of it is graded here, and it may take its time. */
function readDemoTask(): DemoTask {
  const folder = join(repository, 'examples/demo')
  const { evaluator, timeout_seconds, ...task } = JSON.parse(
    readFileSync(join(folder, 'task.json'), 'utf8').replaceAll('examples/demo/repo', join(folder, 'repo')),
  )
  return task
}

/** A program in the fixtures' folder, with its arguments. */
export function program(name: string, ...args: readonly (string | number)[]): Readonly<Record<string, unknown>> {
  const words = [process.execPath, join(FIXTURES, name), ...args].map((word) => `'${word}'`)
  return { harness: 'shell', model_name: MODEL, custom_shell: { command: `exec ${words.join(' ')}` } }
}

export function sources(): readonly Source[] {
  const task = readDemoTask()
  const { agent } = task
  const { system_prompt } = agent.settings
  const withAgent = (name: string, isStreamed: boolean, given: Readonly<Record<string, unknown>>): Source => ({
    name,
    isStreamed,
    task: { ...task, agent: { ...given, model_name: MODEL } },
  })
  const onSdk = (vendor: string): Readonly<Record<string, unknown>> => ({
    ...program('sdk-agent.ts', vendor),
    env: { AGENT_SYSTEM_PROMPT: system_prompt },
  })
  return [
    withAgent('pi', true, agent),
    withAgent('claude --bare', true, {
      harness: 'claude_code',
      settings: { bare: true, tools: ['Bash'], system_prompt, thinking: false, max_tokens: 512, max_turns: 12 },
    }),
    withAgent('openai SDK', false, onSdk('openai')),
    withAgent('Anthropic SDK', false, onSdk('anthropic')),
  ]
}
