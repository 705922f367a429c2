import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AnswerDelta } from '../../src/proxy/live/answer-delta.ts'
import { openLiveAnswer } from '../../src/proxy/live/live-answer.ts'
import { openTelling } from '../../src/proxy/live/telling.ts'
import { freed } from '../../src/proxy/profiles/preparation.ts'
import { openProfiles } from '../../src/proxy/profiles/profile.ts'
import { answer, toolCall } from '../lib/dialect-answers.ts'

const reasoning = (text: string): AnswerDelta => ({ type: 'reasoning', text })
const content = (text: string): AnswerDelta => ({ type: 'content', text })
const call = (id: string, text = ''): AnswerDelta => ({ type: 'call', id, name: 'edit', arguments: text })
const args = (text: string): AnswerDelta => ({ type: 'arguments', text })

function open(cutStrings: readonly string[] = []) {
  const told: AnswerDelta[] = []
  let made = 0
  const newId = (): string => {
    made += 1
    return `new_${made}`
  }
  const telling = openTelling({ cutStrings, newId, toldId: (id) => `told_${id}`, tell: (delta) => told.push(delta) })
  const tell = (...deltas: readonly AnswerDelta[]): void => {
    for (const delta of deltas) telling.tell(delta)
  }
  return { telling, told, tell }
}

describe('what is told of a growing answer', () => {
  it.each([
    ['a text at once', [content('a'), content('b')], [content('a'), content('b')]],
    ['no empty piece', [content(''), reasoning('')], []],
    ['no half of a character', [content('a\ud83d'), content('\ude00')], [content('a'), content('\ud83d\ude00')]],
    ['what only begins like the text that is cut', [content('a <e'), content('x')], [content('a '), content('<ex')]],
    ['no text that is cut when a call follows', [content('a'), content('<end>'), call('c')], [content('a'), call('told_c')]],
    [
      'what was held back of one part before the next',
      [reasoning('a\ud83d'), content('b')],
      [reasoning('a'), reasoning('\ud83d'), content('b')],
    ],
  ])('is %s', (_name, given, expected) => {
    const { told, tell } = open(['<end>'])
    tell(...given)
    expect(told).toEqual(expected)
  })

  it('names calls once, for their client and for their record', () => {
    const { telling, told, tell } = open()
    tell(call('', '{'), args('}'), call('a'), call('a'))
    expect(told).toEqual([call('told_new_1', '{'), args('}'), call('told_a'), call('told_new_2')])
    const whole = answer({ tool_calls: [toolCall('', '{}'), toolCall('a', ''), toolCall('a', ''), toolCall('later', '')] })
    expect(telling.named(whole).message.tool_calls?.map(({ id }) => id)).toEqual(['new_1', 'a', 'new_2', 'later'])
  })

  it('is never what the profile of the model cuts off the whole', () => {
    const profile = { ...openProfiles([])('any'), cutStrings: ['<|im_end|>', '|>', '<|'] }
    const piece = fc.oneof(fc.constantFrom('<', '|', '>', '<|im_', 'end|>'), fc.string({ unit: 'binary', maxLength: 3 }))
    fc.assert(
      fc.property(fc.array(piece), (texts) => {
        const { told, tell } = open(profile.cutStrings)
        tell(...texts.map(content))
        const said = told.map((delta) => ('text' in delta ? delta.text : '')).join('')
        const whole = freed(answer({ content: texts.join('') }), profile).answer.message.content ?? ''
        expect(whole.startsWith(said)).toBe(true)
      }),
    )
  })
})

describe('a live answer', () => {
  it('is heard from its beginning by whoever comes, pieces of one text as one', async () => {
    const live = openLiveAnswer()
    for (const delta of [reasoning('a'), content('b'), content('c'), call('i', '{'), args('}'), args(' ')]) live.tell(delta)
    const listener = live.listen()
    await listener.more()
    const heard = [listener.next(), listener.next(), listener.next(), listener.next(), listener.next()]
    expect(heard).toEqual([reasoning('a'), content('bc'), call('i', '{'), args('} '), null])
    expect(live.listen().next()).toEqual(reasoning('a'))
  })

  it('wakes who has heard all of it when there is more', async () => {
    const live = openLiveAnswer()
    const listener = live.listen()
    const woken = listener.more()
    live.tell(content('a'))
    await woken
    expect(listener.next()).toEqual(content('a'))
  })

  const WHOLE = answer({ reasoning_content: 'R', content: 'text', tool_calls: [toolCall('a', '{}'), toolCall('b', '[1]')] })
  it.each([
    [true, 'nothing', []],
    [true, 'a part', [reasoning('R'), content('te')]],
    [true, 'all of it', [reasoning('R'), content('text'), call('a', '{}'), call('b'), args('[1]')]],
    [false, 'another text', [reasoning('R'), content('tea')]],
    [false, 'more than it says', [reasoning('R!')]],
    [false, 'a text that was not whole when the next part began', [reasoning('R'), content('te'), call('a')]],
    [false, 'reasoning that was not whole', [content('text')]],
    [false, 'a call by another id', [reasoning('R'), content('text'), call('x')]],
    [false, 'a call that was not whole when the next one began', [reasoning('R'), content('text'), call('a', '{'), call('b')]],
    [false, 'a call too many', [reasoning('R'), content('text'), call('a', '{}'), call('b', '[1]'), call('c')]],
  ])('leads to an answer: %s for %s', (expected, _name, told) => {
    const live = openLiveAnswer()
    for (const delta of told) live.tell(delta)
    expect(live.leadsTo(WHOLE)).toBe(expected)
  })
})
