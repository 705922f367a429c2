// What only the Responses API has: conversations continued by id, tools that are no functions, images that a tool gave back.
import type OpenAI from 'openai'
import { describe, expect, it } from 'vitest'
import { chatClient } from './drivers/chat.ts'
import { isOpenaiStatus } from './drivers/openai-errors.ts'
import { readResponse } from './drivers/responses.ts'
import { expectExactTokens, expectExtension, type Gateway, lastMessages, openGateway } from './gateway.ts'
import { FORMS, type Form, QUESTION, RED_PIXEL, type Said, said, scriptOf } from './scenarios.ts'

type Body = Omit<OpenAI.Responses.ResponseCreateParamsNonStreaming, 'model' | 'stream'>
type Item = OpenAI.Responses.ResponseInputItem
type OutputItem = OpenAI.Responses.ResponseOutputItem

async function ask(opened: Gateway, form: Form, body: Body): Promise<OpenAI.Responses.Response> {
  const sdk = chatClient(opened.endpoint)
  if (form === 'plain') return sdk.responses.create({ model: 'gpt-any', ...body })
  return sdk.responses.stream({ model: 'gpt-any', ...body }).finalResponse()
}

const FUNCTION: OpenAI.Responses.FunctionTool = {
  type: 'function',
  name: 'read_file',
  parameters: { type: 'object', properties: { path: { type: 'string' } } },
  strict: false,
}

const PATCH = '*** Begin Patch\n*** Update File: é.ts\n@@\n-const a = "1"\n+const a = \'2\'\n*** End Patch\n'

describe('openai-responses', () => {
  it.for(FORMS)('goes on from an earlier answer by its id alone, %s', async (form, { onTestFinished }) => {
    const turns = [
      said('First.', { reasoning: 'One.', calls: [{ name: 'read_file', arguments: { path: 'a' } }] }),
      said('Second.', { calls: [{ name: 'read_file', arguments: { path: 'b' } }] }),
      said('Third.'),
    ]
    const opened = await openGateway({ script: scriptOf(turns) })
    onTestFinished(opened.close)
    let input: OpenAI.Responses.ResponseCreateParams['input'] = QUESTION
    let previous: string | null = null
    for (const turn of turns) {
      const response: OpenAI.Responses.Response = await ask(opened, form, {
        instructions: 'You are terse.',
        input: input ?? [],
        tools: [FUNCTION],
        previous_response_id: previous,
        reasoning: { effort: 'low' },
      })
      const answer = readResponse(response)
      expect(answer.text).toBe(turn.text)
      if (previous !== null) expectExtension(opened)
      previous = response.id
      input = answer.calls.map((call) => ({ type: 'function_call_output', call_id: call.id, output: 'read' }))
    }
    const { tokens } = await expectExactTokens(opened)
    expect(tokens.calls.map((call) => call.parent)).toEqual([-1, 0, 1])
  })

  it.for(FORMS)('refuses to go on from an answer it does not know, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const error = await ask(opened, form, { input: 'go on', previous_response_id: 'resp_unknown' }).catch((thrown: unknown) => thrown)
    expect(isOpenaiStatus(error, 400) || isOpenaiStatus(error, 404), String(error)).toBe(true)
    expect(error).toMatchObject({ param: 'previous_response_id' })
    expect(opened.asked()).toEqual([])
  })

  const kinds: readonly {
    readonly name: string
    readonly tools: readonly OpenAI.Responses.Tool[]
    readonly call: Said['calls'][number]
    readonly shows: Partial<Record<string, unknown>>
    readonly gives: (item: OutputItem) => Item
  }[] = [
    {
      name: 'a freeform tool',
      tools: [{ type: 'custom', name: 'apply_patch', format: { type: 'grammar', syntax: 'lark', definition: 'start: "*** Begin Patch"' } }],
      call: { name: 'apply_patch', arguments: { input: PATCH } },
      shows: { type: 'custom_tool_call', name: 'apply_patch', input: PATCH },
      gives: (item) => ({ type: 'custom_tool_call_output', call_id: callId(item), output: 'patched' }),
    },
    {
      name: 'a shell',
      tools: [{ type: 'shell' }],
      call: { name: 'shell', arguments: { commands: ['ls -l', 'pwd'], timeout_ms: 1_000 } },
      shows: { type: 'shell_call', action: { commands: ['ls -l', 'pwd'], timeout_ms: 1_000, max_output_length: null } },
      gives: (item) => ({
        type: 'shell_call_output',
        call_id: callId(item),
        output: [{ stdout: 'patched', stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
      }),
    },
    {
      name: 'a local shell',
      tools: [{ type: 'local_shell' }],
      call: { name: 'local_shell', arguments: { command: ['bash', '-lc', 'ls "é"'] } },
      shows: { type: 'local_shell_call', action: expect.objectContaining({ type: 'exec', command: ['bash', '-lc', 'ls "é"'] }) },
      // The SDK's type asks for `id`, Codex sends `call_id`; the gateway takes the latter.
      gives: (item) => ({ type: 'local_shell_call_output', id: callId(item), call_id: callId(item), output: 'patched' }) as Item,
    },
    {
      name: 'a tool of a namespace',
      tools: [
        {
          type: 'namespace',
          name: 'files',
          description: 'Files.',
          tools: [{ type: 'function', name: 'read', parameters: { type: 'object' } }],
        },
      ],
      call: { name: 'files__read', arguments: { path: 'a' } },
      shows: { type: 'function_call', namespace: 'files', name: 'read', arguments: '{"path": "a"}' },
      gives: (item) => ({ type: 'function_call_output', call_id: callId(item), output: 'patched' }),
    },
  ]
  it.for(FORMS.flatMap((form) => kinds.map((kind) => ({ ...kind, form }))))(
    'answers a call of $name in its own kind of item, $form',
    async ({ tools, call, shows, gives, form }, { onTestFinished }) => {
      const opened = await openGateway({ script: scriptOf([said('I act.', { reasoning: 'Act.', calls: [call] }), said('Done.')]) })
      onTestFinished(opened.close)
      const body = { instructions: 'You are terse.', tools: [...tools], store: false, include: ['reasoning.encrypted_content' as const] }
      const first = await ask(opened, form, { ...body, input: QUESTION, reasoning: { effort: 'low' } })
      const acting = first.output.at(-1)
      if (acting === undefined) throw new Error('the SDK gave no item')
      expect(acting).toMatchObject({ ...shows, status: 'completed', id: expect.any(String) })
      // Output items are what the API takes back as input.
      const history: Item[] = [{ role: 'user', content: QUESTION }, ...(first.output as Item[]), gives(acting)]
      const second = await ask(opened, form, { ...body, input: history, reasoning: { effort: 'low' } })
      expect(second.output_text).toBe('Done.')
      expectExtension(opened)
      expect(lastMessages(opened).at(-1)).toMatchObject({ role: 'tool', content: expect.stringContaining('patched') })
      await expectExactTokens(opened)
    },
  )

  it.for(FORMS)('shows the engine an image that a tool gave back, %s', async (form, { onTestFinished }) => {
    const call = { name: 'read_file', arguments: { path: 'dot.png' } }
    const opened = await openGateway({ script: scriptOf([said('I look.', { calls: [call] }), said('Red.')]) })
    onTestFinished(opened.close)
    const first = await ask(opened, form, { input: QUESTION, tools: [FUNCTION] })
    const url = `data:${RED_PIXEL.mediaType};base64,${RED_PIXEL.base64}`
    const output: Item = {
      type: 'function_call_output',
      call_id: readResponse(first).calls[0]?.id ?? '',
      output: [
        { type: 'input_text', text: 'one image' },
        { type: 'input_image', image_url: url, detail: 'auto' },
      ],
    }
    const second = await ask(opened, form, {
      input: [{ role: 'user', content: QUESTION }, ...(first.output as Item[]), output],
      tools: [FUNCTION],
    })
    expect(second.output_text).toBe('Red.')
    expectExtension(opened)
    expect(JSON.stringify(lastMessages(opened).slice(2))).toContain(JSON.stringify(url))
  })
})

function callId(item: OutputItem): string {
  return 'call_id' in item ? (item.call_id ?? '') : ''
}
