// Qwen3's chat template, rendered in JavaScript exactly as Python's Jinja renders it.
import { Template } from '@huggingface/jinja'
import type { ChatMessage, ChatTool } from '../wire/chat-request.ts'
import { templateMessages, templateTools } from './template-input.ts'

export type QwenPrompt = {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  /** Null leaves the template's default, which is to think. */
  readonly enableThinking: boolean | null
  readonly addsGenerationPrompt: boolean
}

export type RenderTemplate = (values: Readonly<Record<string, unknown>>) => string

/**
 * JavaScript's Jinja differs from Python's in two things this template uses: `strip('\n')` strips every kind of
 * whitespace, and `tojson` writes numbers otherwise. The first goes to functions of ours, the second to text that has
 * been written before (see template-input.ts).
 */
const REPLACEMENTS: readonly (readonly [string, string])[] = [
  ['{{- tool | tojson }}', '{{- tool }}'],
  [
    "message.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n')",
    "lstrip_newlines(rstrip_newlines(message.content.split('</think>')[0]).split('<think>')[-1])",
  ],
  ["message.content.split('</think>')[-1].lstrip('\\n')", "lstrip_newlines(message.content.split('</think>')[-1])"],
  ["reasoning_content.strip('\\n')", 'lstrip_newlines(rstrip_newlines(reasoning_content))'],
  ["content.lstrip('\\n')", 'lstrip_newlines(content)'],
]

/** Throws when the template is not the one whose differences are known. */
export function compileTemplate(source: string): RenderTemplate {
  let changed = source
  for (const [theirs, ours] of REPLACEMENTS) {
    if (!changed.includes(theirs)) throw new Error(`the chat template does not contain ${theirs}`)
    changed = changed.replaceAll(theirs, ours)
  }
  const template = new Template(changed)
  const functions = {
    lstrip_newlines: (text: string) => text.replace(/^\n+/, ''),
    rstrip_newlines: (text: string) => text.replace(/\n+$/, ''),
  }
  return (values) => template.render({ ...values, ...functions })
}

/** The prompt text as the official template writes it. Content must be text: see `unsupportedPart`. */
export function renderQwen(render: RenderTemplate, { messages, tools, enableThinking, addsGenerationPrompt }: QwenPrompt): string {
  return render({
    messages: templateMessages(messages),
    ...(tools.length === 0 ? {} : { tools: templateTools(tools) }),
    add_generation_prompt: addsGenerationPrompt,
    ...(enableThinking === null ? {} : { enable_thinking: enableThinking }),
  })
}

export function thinkingOf(templateArguments: Readonly<Record<string, unknown>>): boolean | null {
  return typeof templateArguments.enable_thinking === 'boolean' ? templateArguments.enable_thinking : null
}
