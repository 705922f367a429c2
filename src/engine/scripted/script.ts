// The script file: which answer follows which conversation. Parsed once, with errors that name the file and the path.
import { readFile } from 'node:fs/promises'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'

const plainText = z.string().refine((text) => !/<\|(im_start|im_end|endoftext)\|>/.test(text), 'must not contain a control token')

/** Plain text is looked for as it stands; `{ regex }` is a JavaScript regular expression. */
const textMatcher = z.union([
  z.string().min(1),
  z.strictObject({
    regex: z.string().refine(isRegex, 'is not a regular expression'),
    flags: z
      .string()
      .regex(/^[imsu]*$/, 'may hold i, m, s and u')
      .default(''),
  }),
])

const latency = z.strictObject({
  ttft_ms: z.number().min(0).max(3_600_000).optional(),
  ms_per_token: z.number().min(0).max(60_000).optional(),
})

const choice = z
  .strictObject({
    variant: z.string().min(1).optional(),
    weight: z.int().min(1).max(1000).default(1),
    text: plainText.default(''),
    reasoning: plainText.default(''),
    tool_calls: z
      .array(
        z.strictObject({
          name: z.string().regex(/^[A-Za-z0-9_.:-]{1,128}$/, 'must be a tool name'),
          arguments: z.record(z.string(), z.unknown()).default({}),
        }),
      )
      .max(64)
      .default([]),
    finish_reason: z.enum(['stop', 'length', 'abort']).default('stop'),
    latency: latency.optional(),
  })
  .refine((answer) => answer.text !== '' || answer.reasoning !== '' || answer.tool_calls.length > 0, 'needs text, reasoning or tool_calls')

const rule = z.strictObject({
  name: z.string().optional(),
  /** All conditions given must hold; none given always holds. */
  match: z
    .strictObject({
      /** 1 + the number of assistant messages in the conversation. */
      turn: z.int().min(1).optional(),
      last_role: z.string().optional(),
      last_contains: textMatcher.optional(),
      system_contains: textMatcher.optional(),
      first_user_contains: textMatcher.optional(),
      /** A tool of this name is offered. */
      has_tool: z.string().optional(),
      /** The variant drawn at turn 1, recognised from the conversation's first answer. */
      variant: z.string().optional(),
    })
    .default({}),
  choices: z.array(choice).min(1).max(256),
})

export const scriptSchema = z
  .strictObject({
    rules: z.array(rule).min(1).max(4096),
    fallback: choice.default({ weight: 1, text: 'Done.', reasoning: '', tool_calls: [], finish_reason: 'stop' }),
  })
  .superRefine((script, context) => {
    for (const [index, each] of script.rules.entries()) {
      const twins = indistinguishable(each.choices)
      if (twins !== null && (each.match.turn ?? 1) === 1) {
        context.addIssue({
          code: 'custom',
          path: ['rules', index, 'choices'],
          message: `variants "${twins[0]}" and "${twins[1]}" begin with the same answer, so later turns could not tell them apart`,
        })
      }
    }
  })

export type Script = z.infer<typeof scriptSchema>
/** A script as it is written: what has a default may be left out. */
export type ScriptInput = z.input<typeof scriptSchema>
export type ScriptRule = Script['rules'][number]
export type ScriptChoice = ScriptRule['choices'][number]
export type TextMatcher = z.infer<typeof textMatcher>

export type Loaded<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: string }

export async function loadScript(path: string): Promise<Loaded<Script>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (error) {
    return { ok: false, error: `cannot read script ${path}: ${error instanceof Error ? error.message : String(error)}` }
  }
  return parseScriptText(text, path)
}

/** YAML, of which JSON is a part. `name` stands for the text in errors. */
export function parseScriptText(text: string, name: string): Loaded<Script> {
  let value: unknown
  try {
    value = parseYaml(text)
  } catch (error) {
    return { ok: false, error: `script ${name}: ${error instanceof Error ? error.message : String(error)}` }
  }
  const parsed = scriptSchema.safeParse(value)
  if (parsed.success) return { ok: true, value: parsed.data }
  const lines = parsed.error.issues.map((issue) => `  ${pathText(issue.path)}: ${issue.message}`)
  return { ok: false, error: `script ${name} is not valid:\n${lines.join('\n')}` }
}

function pathText(path: readonly PropertyKey[]): string {
  const text = path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${String(step)}`)).join('')
  return text === '' ? '(top level)' : text.replace(/^\./, '')
}

function isRegex(source: string): boolean {
  try {
    new RegExp(source)
    return true
  } catch {
    return false
  }
}

function indistinguishable(choices: readonly ScriptChoice[]): readonly [string, string] | null {
  const seen = new Map<string, string>()
  for (const each of choices) {
    if (each.variant === undefined) continue
    const signature = answerSignature(each.text, each.tool_calls)
    const other = seen.get(signature)
    if (other !== undefined && other !== each.variant) return [other, each.variant]
    seen.set(signature, each.variant)
  }
  return null
}

/** Equal for an answer and for what a client sends back of it: whitespace, key order and reasoning do not count. */
export function answerSignature(text: string, calls: readonly { readonly name: string; readonly arguments: unknown }[]): string {
  const plain = text
    .normalize('NFC')
    .replace(/<think>[\s\S]*<\/think>/, '')
    .replace(/\s+/g, ' ')
    .trim()
  return JSON.stringify([plain, calls.map((call) => [call.name, sortedKeys(call.arguments)])])
}

function sortedKeys(value: unknown): unknown {
  if (typeof value === 'string') return value.normalize('NFC')
  if (Array.isArray(value)) return value.map(sortedKeys)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1))
  return entries.map(([key, each]) => [key, sortedKeys(each)])
}
