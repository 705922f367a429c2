// Which connections the model port keeps: none that asks too much at once, and of too many those whose client waits for an answer, then the newest.
import type { Socket } from 'node:net'

export type Connections = {
  /** Makes room for it: the connection that has waited for nothing the longest is cut, or the new one when all wait. */
  add(socket: Socket): void
  /** A request has come by it. False, and the connection is cut, when too many have that are not answered. */
  ask(socket: Socket): boolean
  /** A request has been answered. */
  answer(socket: Socket): void
  /** Its client waits for an answer, until the function that is returned has been called. */
  expect(socket: Socket): () => void
}

/** No client of a model sends a second request before it has its answer; thousands fit into one read, and all others would wait for them. */
const MAX_UNANSWERED = 16

export function openConnections(most: number): Connections {
  /** The longest first. */
  const idle = new Set<Socket>()
  const waiting = new Map<Socket, number>()
  const unanswered = new WeakMap<Socket, number>()

  return {
    ask(socket) {
      if (socket.destroyed) return false
      const count = (unanswered.get(socket) ?? 0) + 1
      unanswered.set(socket, count)
      if (count > MAX_UNANSWERED) socket.destroy()
      return count <= MAX_UNANSWERED
    },
    answer(socket) {
      unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1)
    },
    add(socket) {
      if (idle.size + waiting.size >= most) {
        const [longest = socket] = idle
        idle.delete(longest)
        longest.destroy()
        if (longest === socket) return
      }
      idle.add(socket)
      socket.once('close', () => {
        idle.delete(socket)
        waiting.delete(socket)
      })
    },
    expect(socket) {
      idle.delete(socket)
      // More than one answer when a client sends its requests at once.
      waiting.set(socket, (waiting.get(socket) ?? 0) + 1)
      let isExpected = true
      return () => {
        const left = (waiting.get(socket) ?? 0) - 1
        if (!isExpected || left < 0) return
        isExpected = false
        if (left > 0) return void waiting.set(socket, left)
        waiting.delete(socket)
        if (!socket.destroyed) idle.add(socket)
      }
    },
  }
}
