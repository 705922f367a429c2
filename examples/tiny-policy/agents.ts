// The tasks that the policy is trained and tried on: the demo's own, and the same in other words, for each agent CLI that it knows.
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

export const AGENTS = ['pi', 'claude_code'] as const
export type AgentName = (typeof AGENTS)[number]

export type Task = Readonly<Record<string, unknown>> & {
  readonly instruction: string
  readonly agent: Readonly<Record<string, unknown>> & { readonly settings: Readonly<Record<string, unknown>> }
}

const demo = resolve(import.meta.dirname, '../demo')

const INSTRUCTIONS = [
  'slug.js fails its tests in test.js. Mend slug.js and leave test.js as it is.',
  'Make the tests in test.js pass by changing slug.js.',
  'The slug function is wrong. Fix it.',
  'node test.js reports failures. Please fix the function in slug.js.',
]

/** The demo's task as it is, for this agent CLI. */
export function demoTask(agent: AgentName): Task {
  const task: Task = JSON.parse(readFileSync(`${demo}/task.json`, 'utf8').replaceAll('examples/demo/repo', `${demo}/repo`)) // our own file
  return agent === 'pi' ? task : { ...task, agent: { harness: agent, model_name: 'demo-policy', settings: claudeSettings(task) } }
}

/** Half of them are the demo's own words. */
export function taskInOtherWords(agent: AgentName, number: number): Task {
  const task = demoTask(agent)
  const instruction = number % 2 === 0 ? task.instruction : INSTRUCTIONS[((number - 1) / 2) % INSTRUCTIONS.length]
  return { ...task, instruction: instruction ?? task.instruction }
}

function claudeSettings(task: Task): Readonly<Record<string, unknown>> {
  const { system_prompt } = task.agent.settings
  return { bare: true, thinking: false, tools: ['Bash'], max_tokens: 1024, system_prompt }
}
