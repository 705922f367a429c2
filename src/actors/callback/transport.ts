// One POST to a trainer over undici: no redirects, no pooled leftovers of a dead target, and no address that `target.ts` forbids.
import { type LookupAddress, lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Agent, request } from 'undici'
import { isForbiddenAddress } from './target.ts'

export type PostReply = { readonly status: number; readonly retryAfter: string | null }

export type CallbackTransport = {
  /** Rejects when there is no answer; aborting `signal` is one reason. */
  post(url: string, headers: Readonly<Record<string, string>>, body: Uint8Array, signal: AbortSignal): Promise<PostReply>
  close(): Promise<void>
}

/** A receiver's answer is read for its status; more of its body than this cuts the connection. */
const MAX_REPLY_BYTES = 65_536

export function openTransport(): CallbackTransport {
  // The deadline is the caller's signal: the client's own timers would cut a slow receiver earlier and say less.
  const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { lookup: guardedLookup } })
  return {
    async post(url, headers, body, signal) {
      const { target, authorization } = splitCredentials(url)
      const response = await request(target, { method: 'POST', headers: { ...headers, ...authorization }, body, signal, dispatcher: agent })
      await response.body.dump({ limit: MAX_REPLY_BYTES, signal })
      const retryAfter = response.headers['retry-after']
      return { status: response.statusCode, retryAfter: typeof retryAfter === 'string' ? retryAfter : null }
    },
    close: () => agent.destroy(),
  }
}

/** A name is judged by what it resolves to at connect time, so that DNS cannot lead around the check of the URL. */
const guardedLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, [])
    const allowed = addresses.filter(({ address }: LookupAddress) => !isForbiddenAddress(address))
    const [first] = allowed
    if (first === undefined) return callback(new Error(`${hostname} resolves only to addresses that callbacks may not reach`), [])
    if (options.all === true) return callback(null, allowed)
    callback(null, first.address, first.family)
  })
}

function splitCredentials(url: string): { readonly target: URL; readonly authorization: Readonly<Record<string, string>> } {
  const target = new URL(url)
  if (target.username === '' && target.password === '') return { target, authorization: {} }
  const pair = `${decodeURIComponent(target.username)}:${decodeURIComponent(target.password)}`
  target.username = ''
  target.password = ''
  return { target, authorization: { authorization: `Basic ${Buffer.from(pair).toString('base64')}` } }
}
