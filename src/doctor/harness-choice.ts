// Which harness runs which tasks: the harnesses that were asked for, those of the user's tasks, or every one that is installed.
import { type AgentSpec, agentSpecSchema } from '../contract/task.ts'
import type { Harness, HarnessContext } from '../harness/harness.ts'
import { notInstalled } from '../harness/program.ts'
import type { Harnesses } from '../harness/registry.ts'
import { type DriftTask, requestFor } from './drift-tasks.ts'

/** A harness, and the tasks that it is to run. */
export type Look = { readonly harness: string; readonly tasks: readonly DriftTask[] }
export type Choice = { readonly ok: true; readonly looks: readonly Look[] } | { readonly ok: false; readonly problem: string }
type InstalledAgent = HarnessContext['installedAgent']

/**
 * A harness that is asked for runs every task. `asked` null leaves it to the tasks: each is run by the harness it names, and those that name
 * none by all of these, or by every harness that is installed.
 */
export function chooseHarnesses(
  asked: readonly string[] | null,
  tasks: readonly DriftTask[],
  known: Harnesses,
  installedAgent: InstalledAgent,
): Choice {
  if (asked?.length === 0) return { ok: false, problem: '--harness: names none' }
  const ofTasks = tasks.flatMap(({ harness }) => harness ?? [])
  const named = [...new Set(asked ?? ofTasks)]
  if (named.length === 0) return everyInstalled(tasks, known, installedAgent)
  const looks = named.map((harness): Look => {
    return { harness, tasks: tasks.filter((task) => asked !== null || task.harness === null || task.harness === harness) }
  })
  for (const look of looks) {
    for (const task of look.tasks) {
      const problem = misfit(agentOf(task, look.harness), known, installedAgent)
      if (problem !== null) return { ok: false, problem: task.harness === look.harness ? `task ${task.name}: ${problem}` : problem }
    }
  }
  return { ok: true, looks }
}

function everyInstalled(tasks: readonly DriftTask[], known: Harnesses, installedAgent: InstalledAgent): Choice {
  // What needs settings to run at all, such as a shell's command, is run only when it is asked for.
  const runnable = known.names.flatMap((name) => {
    const agent = agentSpecSchema.parse({ harness: name })
    const harness = known.find(agent)
    return harness === null || harness.check(agent) !== null ? [] : [{ name, problem: planProblem(harness, agent, installedAgent) }]
  })
  const fit = runnable.filter(({ problem }) => problem === null)
  if (fit.length > 0) return { ok: true, looks: fit.map(({ name }) => ({ harness: name, tasks })) }
  return { ok: false, problem: ['no agent CLI is installed', ...runnable.map(({ problem }) => problem)].join('\n       ') }
}

function misfit(agent: AgentSpec, known: Harnesses, installedAgent: InstalledAgent): string | null {
  const harness = known.find(agent)
  return known.check(agent) ?? (harness === null ? null : planProblem(harness, agent, installedAgent))
}

/** A plan says best what it lacks; nothing of it is run. A CLI of this machine's PATH is not taken: its version would be anybody's guess. */
function planProblem(harness: Harness, agent: AgentSpec, installedAgent: InstalledAgent): string | null {
  const missing: string[] = []
  const planned = harness.plan({
    ...{ modelUrl: 'http://127.0.0.1', modelKey: '', home: '/', workdir: '/', sessionId: '', taskId: '' },
    ...{ agent, instruction: 'Say hi.' },
    installedAgent(name) {
      const found = installedAgent(name)
      if (found === null) missing.push(name)
      return found
    },
  })
  if (!planned.ok) return planned.error
  return missing[0] === undefined ? null : `harness '${harness.name}': ${notInstalled(missing[0])}`
}

const agentOf = (task: DriftTask, harness: string): AgentSpec => agentSpecSchema.parse(requestFor(task, harness, null, 1).agent)
