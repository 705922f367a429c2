// What differs from one machine and day to the next: a collected conversation, told as if it had happened elsewhere.
import { seededNumbers } from '../../src/engine/serve/seeded.ts'

const FOLDER = /\/[^\s"']*\/sandboxes\/sbx-[0-9a-f]+\/workspace/
const DATE = /\b20\d\d-\d\d-\d\d\b/
/** Pi's two lines, in whichever order. */
const PLACE_LINES = /^(Current date: .*)\n(Current working directory: .*)$/m

const WORDS = ['tmp', 'home', 'var', 'data', 'runs', 'polar', 'work', 'build', 'srv', 'opt', 'node', 'user', 'cache', 'job', 'test']
const LETTERS = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'

/** A function that rewrites every text of one conversation alike; the first of a conversation's texts must be its prompt. */
export function openVariation(prompt: string, seed: string): (text: string) => string {
  const next = seededNumbers('variation', seed)
  const folder = FOLDER.exec(prompt)?.[0]
  const date = DATE.exec(prompt)?.[0]
  const [newFolder, newDate, swaps] = [anyFolder(next), anyDate(next), next() < 0.25]
  return (text) => {
    const placed = folder === undefined ? text : text.replaceAll(folder, newFolder)
    const dated = date === undefined ? placed : placed.replaceAll(date, newDate)
    return swaps ? dated.replace(PLACE_LINES, '$2\n$1') : dated
  }
}

type Next = () => number

const below = (next: Next, limit: number): number => Math.floor(next() * limit)
const characters = (next: Next, alphabet: string, length: number): string =>
  Array.from({ length }, () => alphabet[below(next, alphabet.length)]).join('')

/** Mostly a node's sandbox in some temporary folder, sometimes another place. */
function anyFolder(next: Next): string {
  const step = (): string => {
    const word = WORDS[below(next, WORDS.length)] ?? ''
    return next() < 0.5 ? word : `${word}-${characters(next, LETTERS, 4 + below(next, 5))}`
  }
  const steps = Array.from({ length: 1 + below(next, 4) }, step).join('/')
  return next() < 0.8 ? `/${steps}/data/sandboxes/sbx-${characters(next, '0123456789abcdef', 16)}/workspace` : `/${steps}`
}

function anyDate(next: Next): string {
  const two = (number: number): string => String(number).padStart(2, '0')
  return `20${two(24 + below(next, 12))}-${two(1 + below(next, 12))}-${two(1 + below(next, 28))}`
}
