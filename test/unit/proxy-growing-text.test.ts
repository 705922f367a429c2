import { describe, expect, it } from 'vitest'
import { openGrowingText } from '../../src/proxy/answer-text/growing-text.ts'
import type { AnswerDelta } from '../../src/proxy/live/answer-delta.ts'

const QWEN = {
  format: { reasoning: 'think-tags', opensThinking: false, calls: 'json' },
  beginsInThought: false,
  parsesCalls: true,
} as const

function told(pieces: readonly string[], context: Partial<Parameters<typeof openGrowingText>[0]> = {}): readonly string[] {
  const said: string[] = []
  const tell = (delta: AnswerDelta): void => {
    if (delta.type === 'reasoning' || delta.type === 'content') said.push(`${delta.type}: ${delta.text}`)
  }
  const text = openGrowingText({ ...QWEN, stops: [], ...context }, tell)
  for (const piece of pieces) text.push(piece)
  return said
}

describe('a growing text', () => {
  it.each([
    ['content at once', ['Hel', 'lo.'], ['content: Hel', 'content: lo.']],
    ['thought and content without their tags', ['<thi', 'nk>\nA', 'B\n</th', 'ink>\n\nC'], ['reasoning: A', 'reasoning: B', 'content: C']],
    ['no line break that a call may follow', ['A\n', '\n<tool', '_call>{'], ['content: A']],
    ['a line break when a word follows', ['A\n', 'B'], ['content: A', 'content: \nB']],
    ['what only begins like a call', ['a <tool', '_x'], ['content: a ', 'content: <tool_x']],
    ['nothing after a call has begun', ['A<tool_call>', '{}</tool_call>', 'B'], ['content: A']],
    ['no first half of a character', ['a\ud83d', '\ude00'], ['content: a', 'content: \ud83d\ude00']],
  ])('tells %s', (_name, pieces, said) => {
    expect(told(pieces)).toEqual(said)
  })

  it('keeps a thought back from a call that may have ended it', () => {
    expect(told(['A <tool_call>', '\n{"name"', '}</think>B'], { beginsInThought: true })).toEqual([
      'reasoning: A ',
      'reasoning: <tool_call>\n{"name"}',
      'content: B',
    ])
  })

  it('tells a call that a thought only talks about', () => {
    expect(told(['A <tool_call> B'], { beginsInThought: true })).toEqual(['reasoning: A <tool_call> B'])
  })

  it('keeps back what a stop string takes away', () => {
    expect(told(['A S', 'TO', 'x', 'STOP'], { stops: ['STOP'] })).toEqual(['content: A ', 'content: STOx'])
  })

  it('reads no markup of a model that writes none', () => {
    const format = { reasoning: 'none', opensThinking: false, calls: 'none' } as const
    expect(told(['<think>\n', '<tool_call>'], { format, parsesCalls: false })).toEqual(['content: <think>\n', 'content: <tool_call>'])
  })
})
