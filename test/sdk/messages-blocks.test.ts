// What Anthropic's clients do beside plain turns: marks that move, lines that change, blocks beside results, stop sequences.
import type Anthropic from '@anthropic-ai/sdk'
import { describe, expect, it } from 'vitest'
import { anthropicClient } from './drivers/messages.ts'
import { expectExactTokens, expectExtension, type Gateway, lastMessages, openGateway } from './gateway.ts'
import { FORMS, type Form, QUESTION, READ, RED_PIXEL, said, scriptOf } from './scenarios.ts'

type Body = Omit<Anthropic.MessageCreateParamsNonStreaming, 'model' | 'stream' | 'max_tokens'>

async function ask(opened: Gateway, form: Form, body: Body): Promise<Anthropic.Message> {
  const sdk = anthropicClient(opened.endpoint)
  const whole = { model: 'claude-any', max_tokens: 4_096, ...body }
  return form === 'plain' ? sdk.messages.create(whole) : sdk.messages.stream(whole).finalMessage()
}

const TOOL: Anthropic.Tool = { name: READ.name, description: READ.description, input_schema: { type: 'object', ...READ.schema } }
const CALLS = [
  { name: READ.name, arguments: { path: 'a' } },
  { name: READ.name, arguments: { path: 'b' } },
]
const MARK = { cache_control: { type: 'ephemeral' as const } }

function toolUses(message: Anthropic.Message): readonly Anthropic.ToolUseBlock[] {
  return message.content.filter((block) => block.type === 'tool_use')
}

describe('anthropic', () => {
  it.for(FORMS)('is not led astray by cache marks that move nor by a billing line that changes, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('I read.', { reasoning: 'Read.', calls: CALLS }), said('Read.')]) })
    onTestFinished(opened.close)
    const system = (turn: number): Anthropic.TextBlockParam[] => [
      { type: 'text', text: `x-anthropic-billing-header: cc_version=1; cch=${turn}${turn}${turn};` },
      { type: 'text', text: 'You are terse.', ...MARK },
      { type: 'text', text: 'Be exact.' },
    ]
    const thinking = { type: 'enabled' as const, budget_tokens: 1_024 }
    const first = await ask(opened, form, {
      system: system(1),
      messages: [{ role: 'user', content: [{ type: 'text', text: QUESTION, ...MARK }] }],
      tools: [TOOL],
      thinking,
    })
    const results = toolUses(first).map(
      ({ id }, index): Anthropic.ToolResultBlockParam => ({
        type: 'tool_result',
        tool_use_id: id,
        content: [{ type: 'text', text: `result ${index}` }],
        ...(index === 1 ? MARK : {}),
      }),
    )
    const second = await ask(opened, form, {
      system: system(2),
      messages: [
        { role: 'user', content: [{ type: 'text', text: QUESTION }] },
        { role: 'assistant', content: first.content },
        { role: 'user', content: results },
      ],
      tools: [{ ...TOOL, ...MARK }],
      thinking,
    })
    expect(second.content).toEqual([expect.objectContaining({ type: 'text', text: 'Read.' })])
    expectExtension(opened)
    await expectExactTokens(opened)
  })

  it.for(FORMS)('shows the engine images and failures that tools gave back, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('', { calls: CALLS }), said('Red.')]) })
    onTestFinished(opened.close)
    const first = await ask(opened, form, { messages: [{ role: 'user', content: QUESTION }], tools: [TOOL] })
    const [one, other] = toolUses(first)
    await ask(opened, form, {
      messages: [
        { role: 'user', content: QUESTION },
        { role: 'assistant', content: first.content },
        {
          role: 'user',
          content: [
            {
              type: 'tool_result',
              tool_use_id: one?.id ?? '',
              content: [
                { type: 'text', text: 'one image' },
                { type: 'image', source: { type: 'base64', media_type: RED_PIXEL.mediaType, data: RED_PIXEL.base64 } },
              ],
            },
            { type: 'tool_result', tool_use_id: other?.id ?? '', content: 'no such file', is_error: true },
            { type: 'text', text: 'Look closely.' },
          ],
        },
      ],
      tools: [TOOL],
    })
    expectExtension(opened)
    const told = lastMessages(opened).slice(2)
    expect(told.slice(0, 2)).toMatchObject([
      { role: 'tool', content: expect.stringContaining('one image') },
      { role: 'tool', content: expect.stringContaining('no such file') },
    ])
    const rest = JSON.stringify(told.slice(2))
    expect(rest).toContain(JSON.stringify(`data:${RED_PIXEL.mediaType};base64,${RED_PIXEL.base64}`))
    expect(rest).toContain('Look closely.')
  })

  it.for(FORMS)('names the stop sequence that ended an answer, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('one, two, three, four')]) })
    onTestFinished(opened.close)
    const message = await ask(opened, form, { messages: [{ role: 'user', content: QUESTION }], stop_sequences: ['five', 'three'] })
    expect(message).toMatchObject({ stop_reason: 'stop_sequence', stop_sequence: 'three', content: [{ type: 'text', text: 'one, two, ' }] })
    await expectExactTokens(opened)
  })
})
