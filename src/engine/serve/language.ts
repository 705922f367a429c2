// What the engine's HTTP side asks of a model's language: text to ids and back, and the prompt that its chat template writes.
import type { ChatMessage, ChatTool } from '../wire/chat-request.ts'

export type ChatPrompt = {
  /** Content must be text: see `unsupportedPart`. */
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly ChatTool[]
  /** The request's `chat_template_kwargs`. */
  readonly templateArguments: Readonly<Record<string, unknown>>
  readonly addsGenerationPrompt: boolean
}

/** `message` says why, for the caller: the template refuses the conversation, or the model has none. */
export type Rendered = { readonly ok: true; readonly text: string } | { readonly ok: false; readonly message: string }

export type Language = {
  /** Ids of a text; special tokens written out in it become single ids. Nothing is added. */
  encode(text: string): readonly number[]
  decode(ids: readonly number[]): string
  renderPrompt(prompt: ChatPrompt): Rendered
  /** The id that stands before a text which no template has written; null where none does. */
  readonly textStartId: number | null
  /** Ids are less than this. */
  readonly vocabularySize: number
}
