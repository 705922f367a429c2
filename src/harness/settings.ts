// What every harness reads of `agent.settings`: its own keys, and the sampling that the boundary pins for the session.
import { z } from 'zod'
import type { AgentSpec } from '../contract/task.ts'
import { checkEnvironment } from './environment.ts'

/** The session puts these into every call, whatever the CLI asks for; the harness only lets them pass. */
const SAMPLING_SETTINGS = {
  sampling: z.strictObject({
    temperature: z.number().min(0).max(10).optional(),
    top_p: z.number().gt(0).max(1).optional(),
    top_k: z.int().min(-1).optional(),
    seed: z.int().optional(),
  }),
  sampling_seed: z.int(),
} as const

export type ReadSettings<T> = { readonly ok: true; readonly settings: T } | { readonly ok: false; readonly error: string }

/** `schema` is strict: a setting that is misspelt must not pass for one that is left out. The error is in the caller's terms. */
export function readSettings<T>(harness: string, schema: z.ZodType<T>, agent: AgentSpec): ReadSettings<T> {
  const { sampling, sampling_seed, ...own } = agent.settings
  const pinned = z.object(SAMPLING_SETTINGS).partial().safeParse({ sampling, sampling_seed })
  const parsed = schema.safeParse(own)
  if (pinned.success && parsed.success) return { ok: true, settings: parsed.data }
  const error = pinned.error ?? parsed.error
  return { ok: false, error: `agent.settings of harness '${harness}': ${error === undefined ? 'invalid' : z.prettifyError(error)}` }
}

/** What no preset can pass on to its CLI, or null. `skillsHome` is where that CLI looks for skills. */
export function checkPreset(harness: string, agent: AgentSpec, skillsHome: string): string | null {
  if (agent.custom_shell !== undefined) return `harness '${harness}' takes no agent.custom_shell`
  if (agent.skills_path != null) {
    return `harness '${harness}' takes no agent.skills_path: upload skills and copy them to ${skillsHome} in runtime.prepare`
  }
  return checkEnvironment('agent.env', agent.env)
}

/** The name an agent asks for when its task gives none: the node serves its policy under any name. */
export const DEFAULT_MODEL = 'polar-policy'

/** The variable that holds the attempt's key for CLIs whose configuration names one. */
export const KEY_VARIABLE = 'POLAR_MODEL_KEY'

export function notInstalled(harness: string, folder: string): string {
  return `the agent CLI of harness '${harness}' is not installed on this node: run \`node scripts/agents.ts ${folder}\``
}

export function emptyInstruction(harness: string): string {
  return `harness '${harness}' needs an instruction that is not empty`
}
