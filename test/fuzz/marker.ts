// The mark in a request's own words by which engine, transport and judge know it: its index, and what is to go wrong with it.
import type { FaultName } from '../../src/engine/scripted/faults.ts'

export type Wish = {
  /** What the engine does to the first `times` generations of this request. */
  readonly fault: { readonly name: FaultName; readonly times: number } | null
  /** `short` keeps a slow fault slow but not endless; `late` lets heads be committed and beats be sent. */
  readonly answer: 'any' | 'short' | 'late' | 'long'
}

export type Mark = Wish & { readonly index: number }

export const NO_WISH: Wish = { fault: null, answer: 'any' }

export function writeMark({ index, fault, answer }: Mark): string {
  return `#r${index} ${fault === null ? 'none' : fault.name}*${fault?.times ?? 0} ${answer}#`
}

const MARK = /#r(\d+) ([a-z0-9-]+)\*(\d+) (any|short|late|long)#/g

/** Every mark in a text, in order. */
export function readMarks(text: string): readonly Mark[] {
  return [...text.matchAll(MARK)].map(([, index, name, times, answer]) => ({
    index: Number(index),
    // Written by `writeMark` alone, from a value of these types.
    fault: name === 'none' ? null : { name: name as FaultName, times: Number(times) },
    answer: answer as Wish['answer'],
  }))
}

/** The mark of the newest words. */
export function lastMark(text: string): Mark | null {
  return readMarks(text).at(-1) ?? null
}
