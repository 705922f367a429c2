// A reader of server-sent events, as the HTML standard has them: fields, comments, and a blank line that ends an event.
import { vi } from 'vitest'
import { WAIT } from './contract-node.ts'

export type SentEvent = { readonly id: string; readonly type: string; readonly data: unknown }

export type EventStream = {
  readonly response: Response
  /** All so far. */
  readonly events: readonly SentEvent[]
  readonly comments: readonly string[]
  /** The events once that holds. */
  until(
    holds: (events: readonly SentEvent[]) => boolean,
    options?: { readonly timeout: number; readonly interval: number },
  ): Promise<readonly SentEvent[]>
  close(): Promise<void>
}

export async function openEventStream(url: string, headers: Readonly<Record<string, string>>): Promise<EventStream> {
  const abort = new AbortController()
  const response = await fetch(url, { headers: { ...headers, accept: 'text/event-stream' }, signal: abort.signal })
  const events: SentEvent[] = []
  const comments: string[] = []
  const reading = read(response, events, comments).catch((error: unknown) => {
    if (!abort.signal.aborted) throw error
  })
  return {
    response,
    events,
    comments,
    async until(holds, options = WAIT) {
      await vi.waitUntil(() => holds(events), options)
      return [...events]
    },
    async close() {
      abort.abort()
      await reading
    },
  }
}

async function read(response: Response, events: SentEvent[], comments: string[]): Promise<void> {
  let pending = ''
  const decoder = new TextDecoder()
  for await (const bytes of response.body ?? []) {
    pending += decoder.decode(bytes, { stream: true })
    const blocks = pending.split('\n\n')
    pending = blocks.pop() ?? ''
    for (const block of blocks) {
      const fields = new Map<string, string>()
      for (const line of block.split('\n')) {
        const [, name = '', value = ''] = /^([^:]*): ?(.*)$/.exec(line) ?? []
        if (line.startsWith(':')) comments.push(line.slice(1).trim())
        else fields.set(name, fields.has(name) ? `${fields.get(name)}\n${value}` : value)
      }
      const data = fields.get('data')
      if (data !== undefined) events.push({ id: fields.get('id') ?? '', type: fields.get('event') ?? 'message', data: JSON.parse(data) })
    }
  }
}
