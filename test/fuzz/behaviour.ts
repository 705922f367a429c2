// How the client of one request behaves: patient, slow, gone too early, or in several places at once.
import type { Cut, Reading } from './client/socket.ts'
import type { Dice } from './dice.ts'

export type Behaviour =
  | { readonly type: 'reads' }
  | { readonly type: 'reads-slowly'; readonly reading: Reading }
  | { readonly type: 'dribbles'; readonly bytes: number }
  | { readonly type: 'half-closes' }
  | { readonly type: 'cuts'; readonly at: Cut; readonly resets: boolean }
  /** Leaves, and asks the very same again at once. */
  | { readonly type: 'retries'; readonly at: Cut; readonly resets: boolean }
  /** Several requests in one write, whose answers must come in order. */
  | { readonly type: 'pipelines'; readonly copies: number }
  /** The same on several connections at once. */
  | { readonly type: 'parallel'; readonly copies: number }
  /** Beside it stands a connection that says nothing, or half a head, until the session ends. */
  | { readonly type: 'idles'; readonly says: string }

export function drawBehaviour(dice: Dice): Behaviour {
  const resets = dice.chance(0.4)
  return dice.weighted<() => Behaviour>([
    [60, () => ({ type: 'reads' })],
    [8, () => ({ type: 'reads-slowly', reading: { type: 'slow', bytes: dice.pick([1, 3, 64, 1_000]) } })],
    [5, () => ({ type: 'dribbles', bytes: dice.pick([1, 17, 500]) })],
    [3, () => ({ type: 'half-closes' })],
    [12, () => ({ type: 'cuts', at: dice.pick(CUTS), resets })],
    [4, () => ({ type: 'retries', at: dice.pick(RETRIED_CUTS), resets })],
    [3, () => ({ type: 'pipelines', copies: dice.whole(2, 3) })],
    [3, () => ({ type: 'parallel', copies: dice.pick([2, 3, 5, 14]) })],
    [2, () => ({ type: 'idles', says: dice.pick(['', 'POST /v1/messages HT', 'POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\n']) })],
  ])()
}

const CUTS: readonly Cut[] = ['in-head', 'in-body', 'after-request', 'after-head', 'after-first-bytes', 'in-answer']
const RETRIED_CUTS: readonly Cut[] = ['after-request', 'after-head', 'after-first-bytes']
