// What an operator says of a model under `polar_node.models`: only what differs from what is known of it anyway.
import { z } from 'zod'

const tokens = z.int().min(1).max(100_000_000)
const texts = z.array(z.string().min(1)).max(64)

export const modelProfileSchema = z.strictObject({
  /** Whether the model thinks when the caller does not say. */
  thinking: z.boolean().optional(),
  /** `first`: the chat template takes one system message, at the head. */
  system_messages: z.enum(['anywhere', 'first']).optional(),
  /** For engines that do not state it. */
  max_model_len: tokens.optional(),
  max_output_tokens: z
    .strictObject({ default: tokens.optional(), limit: tokens.optional() })
    .refine(({ default: usual, limit }) => usual === undefined || limit === undefined || usual <= limit, {
      path: ['default'],
      error: 'must not be more than the limit',
    })
    .optional(),
  /** Sent with every call, beside the caller's own. */
  stop: texts.optional(),
  stop_token_ids: z.array(z.int().min(0)).max(64).optional(),
  /** Texts that the engine leaves at the end of an answer and that are none of it. */
  cut: texts.optional(),
  reasoning: z.enum(['none', 'think-tags']).optional(),
  opens_thinking: z.boolean().optional(),
  calls: z.enum(['none', 'json', 'xml']).optional(),
  prints_call_ids: z.boolean().optional(),
})

/** `pattern`: of served names, `*` for any text and `?` for one character, whatever the case. */
export type ModelRule = { readonly pattern: string; readonly profile: z.output<typeof modelProfileSchema> }

export const modelPatternSchema = z
  .string()
  .min(1)
  .max(256)
  .refine((pattern) => !/\s/.test(pattern), 'must not hold white space')
