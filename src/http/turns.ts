// Turns at what only a few may do at once; the others stand in a line of bounded length.
import { join, type Line, leave, openLine } from '../kernel/line.ts'

export type Turns = {
  /** Resolves to true when it is this one's turn, which ends with `leave`; to false at once when the line is full. */
  enter(): Promise<boolean>
  leave(): void
}

export function openTurns(maxAtOnce: number, maxWaiting: number): Turns {
  let line: Line<() => void> = openLine(maxAtOnce)
  return {
    async enter() {
      if (line.waiting.length >= maxWaiting) return false
      const turn = Promise.withResolvers<void>()
      const [next, first] = join(line, turn.resolve)
      line = next
      first?.()
      await turn.promise
      return true
    },
    leave() {
      const [next, first] = leave(line)
      line = next
      first?.()
    },
  }
}
