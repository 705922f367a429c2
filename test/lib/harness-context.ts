// A harness's view of a session: an agent spec, and the context a plan is made in.
import { type AgentSpec, agentSpecSchema } from '../../src/contract/task.ts'
import type { Harness, HarnessContext, HarnessPlan } from '../../src/harness/harness.ts'

export const agentOf = (spec: Record<string, unknown>): AgentSpec => agentSpecSchema.parse(spec)

export function contextOf(spec: Record<string, unknown>, more: Partial<HarnessContext> = {}): HarnessContext {
  return {
    agent: agentOf(spec),
    instruction: 'fix the bug',
    modelUrl: 'http://127.0.0.1:8081/s/sk-polar-1',
    modelKey: 'secret-key-4711',
    home: '/box/home',
    workdir: '/box/workspace',
    installedAgent: (name) => ({ version: '1.2.3', folder: `/agents/${name}` }),
    sessionId: 'sk-polar-1',
    taskId: 'task-1',
    ...more,
  }
}

export function planOf(harness: Harness, context: HarnessContext): HarnessPlan {
  const planned = harness.plan(context)
  if (!planned.ok) throw new Error(planned.error)
  return planned.plan
}

/** The content of the one file of a plan whose path ends so. */
export function fileOf(plan: HarnessPlan, name: string): string {
  const [file, ...more] = plan.files.filter(({ path }) => path.endsWith(name))
  if (file === undefined || more.length > 0) throw new Error(`${name} is not one file among ${plan.files.map(({ path }) => path)}`)
  return file.content
}
