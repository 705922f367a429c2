// A wire over a MessagePort: how two threads reach each other. The port closes within milliseconds of its peer's death.
import type { MessagePort } from 'node:worker_threads'
import type { Wire } from './kernel.ts'

export function openPortWire(port: MessagePort): Wire {
  return {
    post(frame, transfer) {
      // Posting to a closed port is silently dropped; the link hears `closed` and settles what was lost.
      if (transfer.length === 0) port.postMessage(frame)
      else port.postMessage(frame, [...transfer])
    },
    open({ frame, closed }) {
      port.on('close', closed)
      // A frame that cannot be read would be a hole in the order.
      port.on('messageerror', () => port.close())
      port.on('message', frame)
    },
    close: () => port.close(),
  }
}
