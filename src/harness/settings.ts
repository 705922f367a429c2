// What every harness reads of `agent.settings`: its own keys, and the sampling that the boundary pins for the session.
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import type { AgentSpec } from '../contract/task.ts'
import { checkEnvironment } from './environment.ts'
import type { HarnessContext, HarnessPlan } from './harness.ts'
import { checkProgram } from './program.ts'

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

const SETTINGS = 'agent.settings'

export type ReadSettings<T> = { readonly ok: true; readonly settings: T } | { readonly ok: false; readonly error: string }

/** `schema` is strict: a setting that is misspelt must not pass for one that is left out. The error is in the caller's terms. */
export function readSettings<T>(schema: z.ZodType<T> & { readonly shape: object }, agent: AgentSpec): ReadSettings<T> {
  const { sampling, sampling_seed, ...own } = agent.settings
  const misfit = checkSampling(agent)
  if (misfit !== null) return { ok: false, error: misfit }
  const parsed = schema.safeParse(own)
  if (parsed.success) return { ok: true, settings: parsed.data }
  const known = [...Object.keys(schema.shape), ...Object.keys(SAMPLING_SETTINGS)]
  return { ok: false, error: problemsOf(SETTINGS, own, parsed.error, known) }
}

/** What the session could not pin, or null: for harnesses that read no settings of their own too. */
export function checkSampling({ settings: { sampling, sampling_seed } }: AgentSpec): string | null {
  const given = { sampling, sampling_seed }
  const parsed = z.object(SAMPLING_SETTINGS).partial().safeParse(given)
  return parsed.success ? null : problemsOf(SETTINGS, given, parsed.error)
}

/** What no preset can pass on to its CLI, or null. */
export function checkPreset(harness: string, agent: AgentSpec): string | null {
  if (agent.custom_shell !== undefined) return `harness '${harness}' takes no agent.custom_shell`
  return checkProgram(harness, agent.settings) ?? checkEnvironment('agent.env', agent.env)
}

/** The name an agent asks for: the node serves its policy under any. */
export function modelNameOf({ agent }: HarnessContext): string {
  return agent.model_name ?? 'polar-policy'
}

/** The variable that holds the attempt's key for CLIs whose configuration names one. */
export const KEY_VARIABLE = 'POLAR_MODEL_KEY'

export function emptyInstruction(harness: string): string {
  return `harness '${harness}' needs an instruction that is not empty`
}

/** The task's skills, copied to where the CLI looks for them: `target` holds a folder per skill, each with its SKILL.md. */
export function skillsUpload({ agent }: HarnessContext, target: string): NonNullable<HarnessPlan['uploads']> {
  return agent.skills_path == null ? [] : [{ source: agent.skills_path, target }]
}
