// Answers whose bytes are wrong: cut, reset, dripping, or not what they say they are.
import type { ServerResponse } from 'node:http'
import type { Scheduler } from '../../kernel/clock.ts'
import type { FaultAction } from './faults.ts'

type ByteFault = Extract<FaultAction, { at: 'bytes' }>['does']

/** Small enough that any JSON answer leaves in many pieces. */
const DRIP_BYTES = 16
const DRIP_MS = 5

export function reset(response: ServerResponse): void {
  response.socket?.resetAndDestroy()
}

/** Sends a complete body under a byte fault. `isStream` only chooses the content type. */
export async function sendSpoilt(
  response: ServerResponse,
  body: string,
  fault: ByteFault,
  context: { readonly isStream: boolean; readonly scheduler: Scheduler; readonly signal: AbortSignal; readonly cut: () => void },
): Promise<void> {
  const bytes = Buffer.from(body, 'utf8')
  const half = bytes.subarray(0, Math.floor(bytes.length / 2))
  const type = context.isStream ? 'text/event-stream' : 'application/json'
  switch (fault) {
    case 'garbage':
      response.writeHead(200, { 'content-type': type })
      response.end(context.isStream ? 'data: <html>not json\n\ndata: [DONE]\n\n' : '<html>not json')
      return
    case 'truncate':
      response.writeHead(200, { 'content-type': type })
      response.end(half)
      return
    case 'reset':
      response.writeHead(200, { 'content-type': type, ...(context.isStream ? {} : { 'content-length': String(bytes.length) }) })
      // The half must have left the process, or the reset would overtake it.
      await new Promise<void>((resolve) => response.write(half, () => resolve()))
      await pause(context.scheduler, DRIP_MS, context.signal)
      context.cut()
      return
    case 'drip':
      response.writeHead(200, { 'content-type': type, ...(context.isStream ? {} : { 'content-length': String(bytes.length) }) })
      for (let at = 0; at < bytes.length && !context.signal.aborted; at += DRIP_BYTES) {
        response.write(bytes.subarray(at, at + DRIP_BYTES))
        await pause(context.scheduler, DRIP_MS, context.signal)
      }
      response.end()
  }
}

/** Waits, or returns early when the signal is aborted. */
function pause(scheduler: Scheduler, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      timer.cancel()
      signal.removeEventListener('abort', finish)
      resolve()
    }
    const timer = scheduler.after(delayMs, finish)
    signal.addEventListener('abort', finish)
  })
}

const NAN_MARK = '\u0000NaN\u0000'

/**
 * JSON as Python's default encoder writes it: NaN is a bare word, which JavaScript would write as null. The replacer
 * looks at every token id, so an answer without NaN goes without it: a prompt of 60,000 tokens costs 10 ms less.
 */
export function jsonText(value: unknown, holdsNan: boolean): string {
  if (!holdsNan) return JSON.stringify(value)
  const text = JSON.stringify(value, (_key, each) => (Number.isNaN(each) ? NAN_MARK : each))
  return text.replaceAll(JSON.stringify(NAN_MARK), 'NaN')
}
