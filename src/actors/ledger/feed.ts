// The order in which results became final and tasks ended: rows that name them, and how far rows were lost. Pure; state.ts keeps the rest.
import type { SessionId, TaskId } from '../../contract/ids.ts'

type FeedName = { readonly type: 'session'; readonly session: SessionId } | { readonly type: 'task'; readonly task: TaskId }

export type FeedRow = FeedName & { readonly sequence: number }

export type Feed = {
  /** Of the newest row there ever was. */
  readonly last: number
  /** Of the newest row that is no longer kept: who has not read up to it misses some. */
  readonly lost: number
  /** In order, in pieces of bounded length, none of them empty: one more row copies one piece. */
  readonly pieces: readonly (readonly FeedRow[])[]
}

const PIECE = 256

export const EMPTY_FEED: Feed = { last: 0, lost: 0, pieces: [] }

export function append(feed: Feed, name: FeedName): Feed {
  const last = feed.last + 1
  const row: FeedRow = { ...name, sequence: last }
  const piece = feed.pieces.at(-1)
  const pieces =
    piece === undefined || piece.length >= PIECE ? [...feed.pieces, [row]] : feed.pieces.with(feed.pieces.length - 1, [...piece, row])
  return { ...feed, last, pieces }
}

/** Takes rows out whose results are no longer kept. */
export function lose(feed: Feed, sequences: readonly number[]): Feed {
  return { ...drop(feed, sequences), lost: sequences.reduce((most, sequence) => Math.max(most, sequence), feed.lost) }
}

/** Takes rows out that nobody misses: something newer will stand for them. */
export function drop(feed: Feed, sequences: readonly number[]): Feed {
  if (sequences.length === 0) return feed
  const dropped = new Set(sequences)
  const touched = new Set(sequences.map((sequence) => pieceOf(feed, sequence)))
  const pieces = feed.pieces
    .map((piece, i) => (touched.has(i) ? piece.filter(({ sequence }) => !dropped.has(sequence)) : piece))
    .filter((piece) => piece.length > 0)
  return { ...feed, pieces }
}

export function* rowsAfter(feed: Feed, after: number): Generator<FeedRow> {
  for (let i = Math.max(0, pieceOf(feed, after)); i < feed.pieces.length; i += 1) {
    for (const row of feed.pieces[i] ?? []) if (row.sequence > after) yield row
  }
}

/** The last piece that does not begin after `sequence`; -1: there is none. */
function pieceOf({ pieces }: Feed, sequence: number): number {
  let [low, high] = [0, pieces.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((pieces[middle]?.[0]?.sequence ?? Number.POSITIVE_INFINITY) <= sequence) low = middle + 1
    else high = middle
  }
  return low - 1
}
