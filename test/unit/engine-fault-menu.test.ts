// The faults that change what a generation says: none of them may trip over an answer that is empty.
import { describe, expect, it } from 'vitest'
import { FAULT_NAMES, FAULTS } from '../../src/engine/scripted/faults.ts'
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
  showsPromptIds: true,
  choices: [EMPTY],
  weightVersion: 'w',
  latencySeconds: 0,
  endTokenId: 2,
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
