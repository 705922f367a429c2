// The events of SGLang's own /generate, put together as the plain answer would have been.
import type { GrowingText } from '../answer-text/growing-text.ts'
import { isObject, type JsonObject } from '../json.ts'
import type { EngineReply } from './engine.ts'
import type { Fold } from './following.ts'

/** Lists that grow with each token. */
const LISTS = ['output_token_logprobs', 'output_top_logprobs', 'output_token_ids_logprobs'] as const

/**
 * Every event holds all that was sampled so far, or with `--incremental-streaming-output` what the last step has added. Which of the two
 * is told by the numbers: an event of the second kind and those before it make up what the engine has counted.
 */
export function openGeneratedFold(growing: GrowingText, read: (body: JsonObject) => EngineReply): Fold {
  let whole: JsonObject | null = null
  let chars = 0

  return {
    saysDone: true,
    take(event, size) {
      const before = whole
      whole = before !== null && isAddition(event, before) ? added(before, event) : event
      chars = whole === event ? size : chars + size
      growing.push(textOf(whole).slice(before === null ? 0 : textOf(before).length))
      return chars
    },
    read: () => (whole === null ? null : read(whole)),
  }
}

function isAddition(event: JsonObject, before: JsonObject): boolean {
  const counted = isObject(event.meta_info) ? event.meta_info.completion_tokens : null
  const [earlier, now] = [idsOf(before).length, idsOf(event).length]
  return earlier > 0 && typeof counted === 'number' && now < counted && earlier + now === counted
}

function added(before: JsonObject, event: JsonObject): JsonObject {
  const [metaBefore, meta] = [isObject(before.meta_info) ? before.meta_info : {}, isObject(event.meta_info) ? event.meta_info : {}]
  const lists = LISTS.flatMap((name) => (name in metaBefore || name in meta ? [[name, joined(metaBefore[name], meta[name])] as const] : []))
  return {
    ...before,
    ...event,
    text: textOf(before) + textOf(event),
    output_ids: joined(before.output_ids, event.output_ids),
    meta_info: { ...metaBefore, ...meta, ...Object.fromEntries(lists) },
  }
}

function joined(before: unknown, now: unknown): readonly unknown[] {
  return [...(Array.isArray(before) ? before : []), ...(Array.isArray(now) ? now : [])]
}

function textOf({ text }: JsonObject): string {
  return typeof text === 'string' ? text : ''
}

function idsOf({ output_ids: ids }: JsonObject): readonly unknown[] {
  return Array.isArray(ids) ? ids : []
}
