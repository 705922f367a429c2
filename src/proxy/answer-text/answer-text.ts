// Reads a sampled text into reasoning, content and tool calls, as the parsers of vLLM and SGLang do for the same model.
import type { Diagnostic } from '../../contract/call.ts'
import { unreachable } from '../../kernel/unreachable.ts'
import type { Tool } from '../chat.ts'
import { readJsonCall } from './json-call.ts'
import { readXmlCalls } from './xml-call.ts'

/** How a model writes what is not plain text. */
export type AnswerFormat = {
  /** `think-tags`: between `<think>` and `</think>`. */
  readonly reasoning: 'none' | 'think-tags'
  /** The chat template opens the thinking block itself, so that the sampled text begins inside it. */
  readonly opensThinking: boolean
  /** Inside `<tool_call>` tags: `json` as Hermes and Qwen3 write it, `xml` as Qwen3-Coder and Qwen3.5 do. */
  readonly calls: 'none' | 'json' | 'xml'
}

export type CallText = { readonly name: string; readonly arguments: string }

export type ParsedAnswer = {
  readonly reasoning: string
  readonly content: string
  readonly calls: readonly CallText[]
  readonly diagnostics: readonly Diagnostic[]
}

type Context = {
  readonly format: AnswerFormat
  readonly beginsInThought: boolean
  /** Null when calls are not to be looked for. */
  readonly tools: readonly Tool[] | null
}

const THINK_OPEN = '<think>'
const THINK_CLOSE = '</think>'
const CALL_OPEN = '<tool_call>'
/** The last block may lack its end: a stop can come between the call and its tag. */
const CALL_BLOCK = /<tool_call>([\s\S]*?)(?:<\/tool_call>|$)/g
/** A call that ends the thought without a word, as opposed to one that is merely talked about. */
const GENUINE_CALL = /<tool_call>\s*(?:\{|<function=)/

/**
 * Line breaks beside a tag belong to no part: templates write them themselves, so that the next prompt repeats what was
 * sampled. One malformed call leaves all of them text, as vLLM has it; what follows the last call is lost, as both have it.
 */
export function readAnswerText(text: string, context: Context): ParsedAnswer {
  const { reasoning, rest } = splitThought(text, context)
  const { format, tools } = context
  const start = tools === null || format.calls === 'none' ? -1 : rest.indexOf(CALL_OPEN)
  if (tools === null || start === -1) return { reasoning, content: rest, calls: [], diagnostics: [] }
  const read = readCalls(rest.slice(start), format.calls, tools)
  if (!read.ok) {
    return { reasoning, content: rest, calls: [], diagnostics: [{ code: 'tool-call-malformed', detail: read.detail }] }
  }
  return { reasoning, content: trimEnd(rest.slice(0, start)), calls: read.calls, diagnostics: read.diagnostics }
}

function splitThought(text: string, { format, beginsInThought }: Context): { readonly reasoning: string; readonly rest: string } {
  if (format.reasoning === 'none') return { reasoning: '', rest: text }
  const opening = text.trimStart().startsWith(THINK_OPEN) ? text.indexOf(THINK_OPEN) + THINK_OPEN.length : null
  if (opening === null && !beginsInThought) return { reasoning: '', rest: text }
  const thought = text.slice(opening ?? 0)
  const close = thought.indexOf(THINK_CLOSE)
  if (close !== -1) {
    return { reasoning: trim(thought.slice(0, close)), rest: trimStart(thought.slice(close + THINK_CLOSE.length)) }
  }
  const call = GENUINE_CALL.exec(thought)
  if (call !== null) return { reasoning: trim(thought.slice(0, call.index)), rest: thought.slice(call.index) }
  // Cut while thinking: nothing of it was meant to be seen.
  return { reasoning: trim(thought), rest: '' }
}

type ReadCalls =
  | { readonly ok: true; readonly calls: readonly CallText[]; readonly diagnostics: readonly Diagnostic[] }
  | { readonly ok: false; readonly detail: string }

function readCalls(text: string, form: 'json' | 'xml' | 'none', tools: readonly Tool[]): ReadCalls {
  const calls: CallText[] = []
  let end = 0
  let lost = 0
  for (const block of text.matchAll(CALL_BLOCK)) {
    const read = readBlock(block[1] ?? '', form, tools)
    if (!read.ok) return { ok: false, detail: `call ${calls.length + 1}: ${read.detail}` }
    calls.push(...read.calls)
    lost += text.slice(end, block.index).trim().length
    end = block.index + block[0].length
  }
  lost += text.slice(end).trim().length
  const diagnostics = lost === 0 ? [] : [{ code: 'text-after-calls', detail: `${lost} characters` }]
  return { ok: true, calls, diagnostics }
}

export type ReadBlock = { readonly ok: true; readonly calls: readonly CallText[] } | { readonly ok: false; readonly detail: string }

function readBlock(body: string, form: 'json' | 'xml' | 'none', tools: readonly Tool[]): ReadBlock {
  switch (form) {
    case 'json':
      return readJsonCall(body)
    case 'xml':
      return readXmlCalls(body, tools)
    case 'none':
      return { ok: true, calls: [] }
    default:
      return unreachable(form)
  }
}

const trimStart = (text: string): string => text.replace(/^\n+/, '')
/** From the start of a run only, which would else be tried from each of its line breaks. */
const trimEnd = (text: string): string => text.replace(/(?<!\n)\n+$/, '')
const trim = (text: string): string => trimEnd(trimStart(text))
