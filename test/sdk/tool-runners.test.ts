// The agent loops that the SDKs bring along: they keep their history themselves, and the engine still sees its own tokens again.
import type { BetaRunnableTool } from '@anthropic-ai/sdk/lib/tools/BetaRunnableTool'
import { type CallableTool, type FunctionCall, FunctionCallingConfigMode, type Part } from '@google/genai'
import { describe, expect, it } from 'vitest'
import { chat, chatClient } from './drivers/chat.ts'
import { googleClient } from './drivers/google.ts'
import { anthropicClient } from './drivers/messages.ts'
import { expectExactTokens, expectExtension, type Gateway, openGateway } from './gateway.ts'
import { type Ask, FORMS, type Form, scenario } from './scenarios.ts'

const CALLING = ['tools', 'parallel tools', 'reasoning'] as const
const LOOPS = FORMS.flatMap((form) => CALLING.map((kind) => ({ form, kind })))

type Run = (opened: Gateway, ask: Ask, form: Form, results: Results) => Promise<string>
/** Gives the next result, whatever the tool. */
type Results = { next(): string }

const RUNNERS: { readonly [name: string]: Run } = {
  async 'openai runTools'(opened, ask, form, results) {
    const { messages } = chat.begin(ask)
    const body = {
      model: 'gpt-any',
      messages: [...messages],
      tools: ask.tools.map((tool) => ({
        type: 'function' as const,
        function: {
          name: tool.name,
          description: tool.description,
          parameters: { ...tool.schema },
          parse: JSON.parse,
          function: () => results.next(),
        },
      })),
    }
    const sdk = chatClient(opened.endpoint)
    const runner = form === 'stream' ? sdk.chat.completions.runTools({ ...body, stream: true }) : sdk.chat.completions.runTools(body)
    return (await runner.finalContent()) ?? ''
  },

  // By default it asks for a conversation kept by the server, and goes on without when it is told that there is none.
  'anthropic toolRunner': (opened, ask, form, results) => runAnthropicTools(opened, ask, form, results, {}),
  'anthropic toolRunner without a thread': (opened, ask, form, results) => runAnthropicTools(opened, ask, form, results, { thread: false }),

  async 'google automatic function calling'(opened, ask, form, results) {
    const tool: CallableTool = {
      tool: async () => ({
        functionDeclarations: ask.tools.map(({ name, description, schema }) => ({ name, description, parametersJsonSchema: schema })),
      }),
      callTool: async (calls: FunctionCall[]): Promise<Part[]> =>
        calls.map(({ id, name }) => ({
          functionResponse: {
            ...(id === undefined ? {} : { id }),
            ...(name === undefined ? {} : { name }),
            response: { output: results.next() },
          },
        })),
    }
    const request = {
      model: 'gemini-any',
      contents: ask.text,
      config: {
        systemInstruction: ask.system,
        tools: [tool],
        toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.AUTO } },
        ...(ask.thinks ? { thinkingConfig: { includeThoughts: true } } : {}),
      },
    }
    const { models } = googleClient(opened.endpoint)
    if (form === 'plain') return (await models.generateContent(request)).text ?? ''
    let last = ''
    for await (const chunk of await models.generateContentStream(request)) {
      const parts = chunk.candidates?.[0]?.content?.parts ?? []
      // The SDK puts its results between the chunks; what was said before them is not the last answer.
      if (parts.some((part) => part.functionCall !== undefined || part.functionResponse !== undefined)) last = ''
      else last += parts.map((part) => (part.thought === true ? '' : (part.text ?? ''))).join('')
    }
    return last
  },
}

async function runAnthropicTools(
  opened: Gateway,
  ask: Ask,
  form: Form,
  results: Results,
  extra: { readonly thread?: false },
): Promise<string> {
  const tools: readonly BetaRunnableTool<unknown>[] = ask.tools.map((tool) => ({
    type: 'custom',
    name: tool.name,
    description: tool.description,
    input_schema: { type: 'object', ...tool.schema },
    parse: (input) => input,
    run: () => results.next(),
  }))
  const runner = anthropicClient(opened.endpoint).beta.messages.toolRunner({
    model: 'claude-any',
    max_tokens: 4_096,
    system: ask.system,
    messages: [{ role: 'user', content: ask.text }],
    tools: [...tools],
    stream: form === 'stream',
    ...extra,
    ...(ask.thinks ? { thinking: { type: 'enabled' as const, budget_tokens: 1_024 } } : {}),
  })
  const message = await runner.runUntilDone()
  return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('')
}

describe.each(Object.entries(RUNNERS))('%s', (_name, run) => {
  it.for(LOOPS)('goes on with its own history, $form, $kind', async ({ form, kind }, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { ask, results, second } = scenario(kind)
    const left = [...results]
    expect(await run(opened, ask, form, { next: () => left.shift() ?? 'one call too many' })).toBe(second.text)
    expect(left).toEqual([])
    expectExtension(opened)
    expect((await expectExactTokens(opened)).calls).toMatchObject([
      { status: 'ok', toolCount: 2 },
      { status: 'ok', toolCount: 2 },
    ])
  })
})

describe('google chats', () => {
  it.for(FORMS)('keep each chunk of a stream as a content of its own, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { ask, results, first, second } = scenario('reasoning')
    const talk = googleClient(opened.endpoint).chats.create({
      model: 'gemini-any',
      config: {
        systemInstruction: ask.system,
        tools: [
          { functionDeclarations: ask.tools.map(({ name, description, schema }) => ({ name, description, parametersJsonSchema: schema })) },
        ],
        thinkingConfig: { includeThoughts: true },
      },
    })
    const say = async (message: string | Part[]): Promise<readonly Part[]> => {
      if (form === 'plain') return (await talk.sendMessage({ message })).candidates?.[0]?.content?.parts ?? []
      const parts: Part[] = []
      for await (const chunk of await talk.sendMessageStream({ message })) parts.push(...(chunk.candidates?.[0]?.content?.parts ?? []))
      return parts
    }
    const calls = (await say(ask.text)).flatMap((part) => part.functionCall ?? [])
    expect(calls.map((call) => call.args)).toEqual(first.calls.map((call) => call.arguments))
    const answer = await say(
      calls.map(({ id = '', name = '' }, index) => ({ functionResponse: { id, name, response: { output: results[index] } } })),
    )
    expect(answer.map((part) => (part.thought === true ? '' : (part.text ?? ''))).join('')).toBe(second.text)
    expectExtension(opened)
    await expectExactTokens(opened)
  })
})
