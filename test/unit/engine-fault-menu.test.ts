// The faults that change what a generation says: none of them may trip over an answer that is empty.
import { describe, expect, it } from 'vitest'
import { cutGeneration, FAULT_NAMES, FAULTS } from '../../src/engine/scripted/faults.ts'
import type { GeneratedChoice, Generation } from '../../src/engine/wire/generation.ts'

const EMPTY: GeneratedChoice = {
  index: 0,
  tokens: [],
  logprobs: [],
  alternatives: [],
  text: '',
  parts: [],
  finish: 'length',
  matchedStop: null,
  toolCallIds: [],
  showsIds: true,
}
const GENERATION: Generation = {
  id: 'g',
  createdSeconds: 1,
  model: 'm',
  promptIds: [1],
  cachedTokens: null,
  showsPromptIds: true,
  choices: [EMPTY],
  weightVersion: 'w',
  latencySeconds: 0,
}
const CHANGES = FAULT_NAMES.flatMap((name) => {
  const { action } = FAULTS[name]
  return action.at === 'generation' ? [{ name, change: action.change }] : []
})

describe('a fault of what an answer says', () => {
  it.each(CHANGES)('$name samples nothing where nothing was sampled', ({ change }) => {
    const [choice] = change(GENERATION).choices
    expect(choice?.tokens ?? []).toEqual([])
    expect(choice?.logprobs ?? []).toEqual([])
  })
})

it('a generation that is cut keeps the calls that were complete by then', () => {
  const text = 'So <call> and <call>'
  const ends = [3, 9, 14, 17, 20]
  const choice: GeneratedChoice = {
    ...EMPTY,
    text,
    tokens: ends.map((textEnd, index) => ({ id: index, text: text.slice(ends[index - 1] ?? 0, textEnd), textEnd, endsWhole: true })),
    parts: [
      { kind: 'content', start: 0, end: 3, text: 'So ' },
      { kind: 'tool-call', start: 3, end: 9, name: 'f', arguments: '{}', argumentsStart: null },
      { kind: 'content', start: 9, end: 14, text: ' and ' },
      { kind: 'tool-call', start: 14, end: 20, name: 'g', arguments: '{}', argumentsStart: null },
    ],
  }
  const kept = (count: number) => cutGeneration(choice, count).parts.map((part) => [part.kind, part.end])
  expect(kept(2)).toEqual([
    ['content', 3],
    ['tool-call', 9],
  ])
  expect(kept(4)).toEqual([
    ['content', 3],
    ['tool-call', 9],
    ['content', 14],
  ])
})
