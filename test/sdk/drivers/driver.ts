// What the matrix asks of a vendor's SDK: begin, send, go on with what the SDK returned, and say what it threw.
import type { DialectName } from '../../../src/contract/call.ts'
import type { Ask, Form } from '../scenarios.ts'

/** Where a session's model is, as an agent is told. */
export type Endpoint = {
  readonly origin: string
  readonly basePath: string
  readonly key: string
  /** Handed to the SDK in place of the global one. */
  readonly fetch: typeof fetch
}

export type Wish = {
  readonly form: Form
  /** Repeats the SDK does by itself. */
  readonly retries?: number
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** At each event of a stream, as the SDK hands it out. */
  readonly onEvent?: () => void
}

type Call = {
  readonly id: string
  readonly name: string
  readonly arguments: unknown
  /** As the SDK hands it out; null where the dialect carries an object only. */
  readonly argumentText: string | null
}

/** One answer, read from the SDK's own objects. */
export type Answer = {
  readonly text: string
  readonly reasoning: string
  /** The opaque text beside the reasoning; null where the dialect has none or the answer brought none. */
  readonly signature: string | null
  readonly calls: readonly Call[]
  /** In the dialect's own word. */
  readonly finish: string | null
  readonly usage: { readonly input: number | undefined; readonly output: number | undefined; readonly total: number | null }
}

type Result = { readonly call: Call; readonly output: string }

/** A conversation in the SDK's own types; what the SDK returned stands in it untouched. */
export type Driver<History> = {
  readonly dialect: DialectName
  /** The vendor's words for failures, by status. */
  readonly errorWords: Readonly<Record<400 | 401 | 403 | 404 | 413 | 415 | 429, string>>
  readonly finishes: { readonly stop: string; readonly tool_calls: string; readonly length: string }
  readonly signsReasoning: boolean
  /** False where the SDK throws without the headers of the answer. */
  readonly showsHeaders: boolean
  /** How a failure comes to light that follows the head of a stream. */
  readonly lateFailure: 'thrown' | 'in the answer'
  begin(ask: Ask): History
  /** Rejects with the SDK's own error. */
  send(endpoint: Endpoint, history: History, wish: Wish): Promise<{ readonly answer: Answer; readonly history: History }>
  /** By the vendor's own counting route; Chat has none, and asks the engine's in its place. */
  count(endpoint: Endpoint, history: History): Promise<number>
  /** What the engine is told of an output: text, or the object in which the dialect wraps it. */
  toolContent(output: string): string
  withResults(history: History, results: readonly Result[]): History
  withUser(history: History, text: string): History
  /** True for the SDK's own class for this status, with this status. */
  isStatusError(error: unknown, status: number): boolean
  isAbort(error: unknown): boolean
  retryAfter(error: unknown): string | null
  /** The vendor's word for the failure, where its envelope has one; null for what is no error of the SDK. */
  errorWord(error: unknown): string | null
}
