// A harness of the operator's own: one module outside this package, held to the shape of a harness each time it answers.
import { pathToFileURL } from 'node:url'
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import type { Harness } from './harness.ts'

const callable = z.custom<(...args: never) => unknown>((value) => typeof value === 'function', 'must be a function')
const exportShape = z.object({ harness: z.object({ dialect: z.string(), check: callable, plan: callable, verdict: callable }) })

const absolute = z.string().startsWith('/', 'must be an absolute path')
const commandShape = z.object({
  command: z.string(),
  cwd: z.string().exactOptional(),
  env: z.record(z.string(), z.string()),
  label: z.string(),
})

const plannedShape = z.discriminatedUnion('ok', [
  z.object({
    ok: z.literal(true),
    plan: z.object({
      files: z.array(z.object({ path: z.string(), content: z.string() })),
      uploads: z.array(z.object({ source: absolute, target: z.string() })).exactOptional(),
      setup: z.array(commandShape.extend({ isFinal: z.boolean().exactOptional() })),
      run: commandShape,
      logs: z.array(absolute).exactOptional(),
    }),
  }),
  z.object({ ok: z.literal(false), error: z.string() }),
])

const verdictShape = z.discriminatedUnion('failed', [
  z.object({ failed: z.literal(false) }),
  z.object({ failed: z.literal(true), reason: z.string() }),
])

/** Throws, naming the module, when it cannot be used: the node must not start. */
export async function loadCustomHarness(name: string, path: string): Promise<Harness> {
  const where = `custom harness '${name}' (${path})`
  // What a trainer is told names no path of this host.
  const who = `harness '${name}'`
  const loaded: unknown = await import(pathToFileURL(path).href).catch((error: unknown) => {
    throw new Error(`${where} could not be loaded: ${textOf(error)}`, { cause: error })
  })
  const parsed = exportShape.safeParse(loaded)
  if (!parsed.success) throw new Error(`${where}: ${z.prettifyError(parsed.error)}`)
  // The shape was checked as far as a running program can; what the functions answer is checked each time.
  const { harness } = loaded as { readonly harness: Harness }
  return {
    name,
    dialect: harness.dialect,
    check(agent) {
      const said = answerOf(z.string().nullable(), () => harness.check(agent))
      return said.ok ? said.answer : `${who} could not check the agent: ${said.error}`
    },
    plan(context) {
      const said = answerOf(plannedShape, () => harness.plan(context))
      return said.ok ? said.answer : { ok: false, error: `${who} made no plan: ${said.error}` }
    },
    verdict(output) {
      const said = answerOf(verdictShape, () => harness.verdict(output))
      return said.ok ? said.answer : { failed: true, reason: `${who} could not judge its agent: ${said.error}` }
    },
  }
}

type Said<T> = { readonly ok: true; readonly answer: T } | { readonly ok: false; readonly error: string }

/** What the module answers is taken when it has the shape, and then only what is of that shape. */
function answerOf<T>(shape: z.ZodType<T>, ask: () => unknown): Said<T> {
  try {
    const given = ask()
    const parsed = shape.safeParse(given)
    return parsed.success ? { ok: true, answer: parsed.data } : { ok: false, error: problemsOf('its answer', given, parsed.error) }
  } catch (error) {
    return { ok: false, error: textOf(error) }
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
