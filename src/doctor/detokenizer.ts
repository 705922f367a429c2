// Ids as text, by the tokenizer that made them: each kind of inference server is asked on its own route.
import { z } from 'zod'
import { unreachable } from '../kernel/unreachable.ts'
import type { ServerKind } from './remedies.ts'
import type { Decode } from './window-text.ts'

const DEADLINE_MS = 10_000
const answerSchema = z.looseObject({ prompt: z.string().optional(), text: z.string().optional(), content: z.string().optional() })

type Asked = { readonly body: object; readonly read: (answer: z.infer<typeof answerSchema>) => string | undefined }

/** `url` is the server's root. `model` is told to servers that have several, where it is known. */
export function openDetokenizer(kind: ServerKind, url: string, model: string | null): Decode {
  return async (ids) => {
    if (ids.length === 0) return { ok: true, text: '' }
    const { body, read } = asked(kind, ids, model)
    const problem = (why: string) => ({ ok: false, problem: `${url}/detokenize ${why}` }) as const
    try {
      const response = await fetch(`${url}/detokenize`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(DEADLINE_MS),
      })
      if (!response.ok) return problem(`answered ${response.status}`)
      const parsed = answerSchema.safeParse(await response.json())
      const text = parsed.success ? read(parsed.data) : undefined
      return text === undefined ? problem('answered without a text') : { ok: true, text }
    } catch (error) {
      return problem(`gave no answer: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}

function asked(kind: ServerKind, tokens: readonly number[], model: string | null): Asked {
  switch (kind) {
    case 'vllm':
      return { body: { ...(model === null ? {} : { model }), tokens }, read: ({ prompt }) => prompt }
    case 'sglang':
    case 'sglang-native':
    case 'embedded':
      // It leaves special tokens out unless it is told not to, and where turns begin is what matters here.
      return { body: { ...(model === null ? {} : { model }), tokens, skip_special_tokens: false }, read: ({ text }) => text }
    case 'llamacpp':
      return { body: { tokens }, read: ({ content }) => content }
    default:
      return unreachable(kind)
  }
}
