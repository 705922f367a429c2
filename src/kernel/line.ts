// A limit on jobs that run at once, and the line of those that wait for one to end. Pure.

export type Line<T> = { readonly running: number; readonly maxRunning: number; readonly waiting: readonly T[] }

export function openLine<T>(maxRunning: number): Line<T> {
  return { running: 0, maxRunning, waiting: [] }
}

/** The second value is the job to start now, if there is room. Whoever joins must be bounded in number. */
export function join<T>(line: Line<T>, job: T): readonly [Line<T>, T | null] {
  if (line.running < line.maxRunning) return [{ ...line, running: line.running + 1 }, job]
  return [{ ...line, waiting: [...line.waiting, job] }, null]
}

/** A running job ended; the second value is the one that takes its place. */
export function leave<T>(line: Line<T>): readonly [Line<T>, T | null] {
  const [next, ...waiting] = line.waiting
  if (next === undefined) return [{ ...line, running: line.running - 1 }, null]
  return [{ ...line, waiting }, next]
}
