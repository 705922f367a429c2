// OpenAI Responses tools: what an engine is shown of them, and that every call comes back in the form its tool was declared in.
import { describe, expect, it } from 'vitest'
import { memberName } from '../../src/proxy/dialects/openai-responses/tool-names.ts'
import type { JsonObject } from '../../src/proxy/json.ts'
import { accepted, answer, call, formOf, IDENTITY, messagesOf, refused, said, streamOf, TOOLS } from '../lib/responses-fixture.ts'

const names = (body: JsonObject): readonly string[] => (accepted(body).request.tools ?? []).map((tool) => tool.function.name)

/** The one call of an answer as the plain form tells it; the stream must end with the same. */
function told(name: string, argumentsText: string, tools: unknown = TOOLS): JsonObject {
  const sample = answer({ tool_calls: [call('call_1', argumentsText, name)] })
  const form = formOf({ tools })
  const [item] = JSON.parse(form.plain(sample, IDENTITY)).output
  const done = streamOf(sample, form).find(({ type }) => type === 'response.output_item.done')
  expect(done?.item).toEqual(item)
  return item
}

describe('TI-04: a freeform tool', () => {
  const patch = '*** Begin Patch\n*** End Patch\n'
  const request = {
    tools: [TOOLS[1], { type: 'function', name: 'shell', parameters: { type: 'object' } }],
    tool_choice: { type: 'custom', name: 'apply_patch' },
  }

  it('is shown as a function of one required string, with its grammar in words', () => {
    const { tools, parameters } = accepted(request).request
    expect(tools?.[0]).toEqual({
      type: 'function',
      function: {
        name: 'apply_patch',
        description: 'edit files\n\nThe input must match this lark grammar:\nstart: /.+/s',
        parameters: {
          type: 'object',
          properties: { input: { type: 'string', description: expect.any(String) } },
          required: ['input'],
          additionalProperties: false,
        },
      },
    })
    expect(parameters).toEqual({ tool_choice: { type: 'function', function: { name: 'apply_patch' } } })
    expect(accepted(request).diagnostics).toEqual([{ code: 'grammar-not-enforced', detail: 'tools[0].format' }])
  })

  it.each([
    { shape: 'the declared one', sampled: JSON.stringify({ input: patch }), input: patch },
    { shape: 'another single string', sampled: JSON.stringify({ patch }), input: patch },
    { shape: 'bare text', sampled: patch, input: patch },
    { shape: 'empty', sampled: '{"input":""}', input: '' },
    { shape: 'nothing', sampled: '', input: '' },
    { shape: 'an object of something else', sampled: '{"a": 1}', input: '{"a": 1}' },
  ])('comes back as custom_tool_call with the bare text in both forms, argument shape: $shape', ({ sampled, input }) => {
    const item = told('apply_patch', sampled)
    expect(item).toEqual({
      id: expect.stringMatching(/^ctc_/),
      type: 'custom_tool_call',
      status: 'completed',
      call_id: 'call_1',
      name: 'apply_patch',
      input,
    })
    const events = streamOf(answer({ tool_calls: [call('call_1', sampled, 'apply_patch')] }))
    const deltas = events.filter(({ type }) => type === 'response.custom_tool_call_input.delta')
    expect(deltas.map(({ delta }) => delta).join('')).toBe(input)
    expect(events.find(({ type }) => type === 'response.custom_tool_call_input.done')).toMatchObject({ input, item_id: item.id })
  })

  it('is read back from history as the same call and its result', () => {
    const history = [
      { type: 'custom_tool_call', call_id: 'call_1', name: 'apply_patch', input: patch },
      { type: 'custom_tool_call_output', call_id: 'call_1', output: [{ type: 'input_text', text: 'ok' }] },
    ]
    expect(messagesOf(history)).toEqual([
      said({ tool_calls: [call('call_1', JSON.stringify({ input: patch }), 'apply_patch')] }),
      { role: 'tool', tool_call_id: 'call_1', content: 'ok' },
    ])
  })
})

describe('TI-05: a namespace', () => {
  const namespace = {
    type: 'namespace',
    name: 'mcp__files__',
    tools: [{ type: 'function', name: 'status', parameters: { type: 'object', properties: {} } }],
  }

  it('is flattened to functions that come back with namespace and name apart', () => {
    expect(accepted({ tools: [namespace] }).request.tools).toEqual([
      { type: 'function', function: { name: 'mcp__files____status', parameters: { type: 'object', properties: {} } } },
    ])
    expect(told('mcp__files____status', '{"a": 1}')).toEqual({
      id: expect.stringMatching(/^fc_/),
      type: 'function_call',
      status: 'completed',
      call_id: 'call_1',
      namespace: 'mcp__files__',
      name: 'status',
      arguments: '{"a": 1}',
    })
    expect(told('mcp__files____write', '{"input":"x"}')).toMatchObject({
      type: 'custom_tool_call',
      namespace: 'mcp__files__',
      name: 'write',
      input: 'x',
    })
  })

  it('is flattened alike in history, whether or not the tool list still holds it', () => {
    const item = { type: 'function_call', namespace: 'mcp__files__', name: 'status', call_id: 'c1', arguments: '{}' }
    const flat = [said({ tool_calls: [call('c1', '{}', 'mcp__files____status')] })]
    expect(messagesOf([item], { tools: [namespace] })).toEqual(flat)
    expect(messagesOf([item])).toEqual(flat)
  })

  it.each([
    ['n'.repeat(40), 'm'.repeat(40)],
    ['mcp.files/x', 'read'],
    ['mcp', 'lire_é'],
    ['m'.repeat(70), 'x'],
  ])('with names that do not fit has them cut and told apart: %s, %s', (space, name) => {
    const flat = memberName(space, name)
    expect(flat).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
    expect(memberName(space, `${name}2`)).not.toBe(flat)
    expect(memberName(`${space}2`, name)).not.toBe(flat)
    const tools = [{ type: 'namespace', name: space, tools: [{ type: 'function', name }] }]
    expect(names({ tools })).toEqual([flat])
    expect(told(flat, '{}', tools)).toMatchObject({ namespace: space, name })
  })

  it('whose member would be called like another tool is refused, naming both', () => {
    const twin = { type: 'function', name: 'mcp__files____status', parameters: { type: 'object' } }
    const failure = refused({ tools: [namespace, twin, { type: 'web_search' }, { type: 'tool_search' }] })
    expect(failure).toMatchObject({ code: 'invalid-request', status: 400, param: 'tools[1]' })
    expect(failure.message).toContain('"status" of namespace "mcp__files__" (tools[0].tools[0])')
    expect(failure.message).toContain('"mcp__files____status"')
  })

  it.each([
    {
      tools: [
        { type: 'function', name: 'x' },
        { type: 'custom', name: 'x' },
      ],
    },
    { tools: [{ type: 'shell' }, { type: 'function', name: 'shell' }] },
  ])('is not the only way to collide: %o', ({ tools }) => {
    expect(refused({ tools })).toMatchObject({ code: 'invalid-request', param: 'tools[1]' })
  })
})

describe('tools that nobody here can run', () => {
  const hosted = [
    'web_search',
    'mcp',
    'image_generation',
    'file_search',
    'code_interpreter',
    'computer',
    'apply_patch',
    'tool_search',
    'hologram',
  ]
  it.each(hosted)('%s is dropped with a note, and the rest goes on', (type) => {
    const read = accepted({ tools: [{ type }, TOOLS[0]] })
    expect(read.request.tools).toMatchObject([{ function: { name: 'f' } }])
    expect(read.diagnostics).toEqual([{ code: 'tool-dropped', detail: `tools[0]: nothing here runs tools of type ${type}` }])
    expect(accepted({ tools: [{ type }], tool_choice: 'auto' }).request).toMatchObject({ tools: null, parameters: {} })
  })
})

describe('a function tool', () => {
  it('keeps its schema untouched, and loses with a note what no engine knows', () => {
    const parameters = { type: 'object', properties: { 10: {}, 2: {} }, $schema: 'x' }
    const read = accepted({
      tools: [{ type: 'function', name: 'f', description: 'd', parameters, strict: false, defer_loading: true, output_schema: {} }],
    })
    expect(JSON.stringify(read.request.tools)).toBe(
      JSON.stringify([{ type: 'function', function: { name: 'f', description: 'd', parameters } }]),
    )
    expect(read.diagnostics).toEqual([{ code: 'field-dropped', detail: 'tools[0].output_schema' }])
  })

  it('may have an empty description', () => {
    expect(accepted({ tools: [{ type: 'function', name: 'f', description: '' }] }).request.tools).toEqual([
      { type: 'function', function: { name: 'f', description: '' } },
    ])
  })

  it('is strict where sampling may be constrained, and not in a training session', () => {
    const tools = [{ type: 'function', name: 'f', parameters: { type: 'object' }, strict: true }]
    expect(accepted({ tools }, 'eval').request.tools).toMatchObject([{ function: { strict: true } }])
    const trained = accepted({ tools }, 'train')
    expect(trained.request.tools?.[0]?.function).not.toHaveProperty('strict')
    expect(trained.diagnostics).toEqual([{ code: 'field-dropped', detail: 'tools[0].strict' }])
  })

  it('that was not declared is told all the same: the client says what it thinks of it', () => {
    expect(told('made_up', '{}')).toMatchObject({ type: 'function_call', name: 'made_up', arguments: '{}' })
  })
})

describe('shell tools', () => {
  it.each([
    {
      name: 'shell',
      sampled: '{"commands": ["ls", "pwd"], "timeout_ms": 5}',
      item: { type: 'shell_call', action: { commands: ['ls', 'pwd'], timeout_ms: 5, max_output_length: null }, environment: null },
      echoed: '{"commands":["ls","pwd"],"timeout_ms":5}',
    },
    {
      name: 'local_shell',
      sampled: '{"command": ["ls", "-l"], "working_directory": "/w"}',
      item: {
        type: 'local_shell_call',
        action: { type: 'exec', command: ['ls', '-l'], env: {}, timeout_ms: null, working_directory: '/w', user: null },
      },
      echoed: '{"command":["ls","-l"],"working_directory":"/w"}',
    },
  ])('$name is a function for the engine and comes back as its own item', ({ name, sampled, item, echoed }) => {
    expect(names({ tools: [{ type: name }] })).toEqual([name])
    const given = told(name, sampled)
    expect(given).toMatchObject({ ...item, id: expect.stringMatching(/^l?sh_[0-9a-f]{32}_0$/), call_id: 'call_1', status: 'completed' })
    expect(messagesOf([given])).toMatchObject([{ role: 'assistant', content: null, tool_calls: [call('call_1', echoed, name)] }])
  })

  it.each([
    { name: 'shell', sampled: 'ls -l', action: { commands: ['ls -l'] } },
    { name: 'shell', sampled: '{"commands": "ls"}', action: { commands: ['ls'] } },
    { name: 'shell', sampled: '{"commands": ["ls"], "timeout_ms": 1.5}', action: { commands: ['ls'], timeout_ms: null } },
    { name: 'shell', sampled: '{"commands": [1]}', action: { commands: ['{"commands": [1]}'] } },
    { name: 'local_shell', sampled: '{"command": "ls"}', action: { command: ['bash', '-lc', 'ls'] } },
    { name: 'local_shell', sampled: 'ls', action: { command: ['bash', '-lc', 'ls'] } },
  ])('$name runs $sampled as well as it can be understood', ({ name, sampled, action }) => {
    expect(told(name, sampled)).toMatchObject({ action })
  })

  it('give back what was printed and how it ended', () => {
    const output = [
      { stdout: 'a\n', stderr: 'w\n', outcome: { type: 'exit', exit_code: 1 } },
      { stdout: '', stderr: '', outcome: { type: 'timeout' } },
    ]
    const history = [
      { type: 'shell_call', call_id: 'c', action: { commands: ['x'] } },
      { type: 'shell_call_output', call_id: 'c', output },
      { type: 'local_shell_call', id: 'lsh_1', call_id: 'd', action: { type: 'exec', command: ['x'], env: {} } },
      // The vendor's output names the item, not the call.
      { type: 'local_shell_call_output', id: 'lsh_1', output: '{"output":"y"}' },
    ]
    expect(messagesOf(history)).toMatchObject([
      { tool_calls: [call('c', '{"commands":["x"]}', 'shell')] },
      { role: 'tool', tool_call_id: 'c', content: 'a\nw\nexit code: 1\ntimed out' },
      { tool_calls: [call('d', '{"command":["x"]}', 'local_shell')] },
      { role: 'tool', tool_call_id: 'd', content: '{"output":"y"}' },
    ])
  })
})

describe('a search for tools that the client makes', () => {
  const found = { type: 'namespace', name: 'mail', tools: [{ type: 'function', name: 'send' }] }
  const history = [
    { type: 'tool_search_call', call_id: 's', execution: 'client', arguments: { query: 'mail' } },
    { type: 'tool_search_output', call_id: 's', execution: 'client', tools: [found, TOOLS[0]] },
  ]

  it('is a function for the engine and comes back as tool_search_call with its arguments as an object', () => {
    expect(accepted({ tools: [TOOLS[5]] }).request.tools).toEqual([
      { type: 'function', function: { name: 'tool_search', description: 'finds tools', parameters: { type: 'object' } } },
    ])
    expect(told('tool_search', '{"query": "mail"}')).toEqual({
      id: expect.stringMatching(/^tsc_/),
      type: 'tool_search_call',
      status: 'completed',
      call_id: 'call_1',
      execution: 'client',
      arguments: { query: 'mail' },
    })
  })

  it.each([
    { type: 'tool_search', execution: 'client' },
    { type: 'tool_search', execution: 'server', parameters: { type: 'object' } },
  ])('is dropped where no client makes it, or nothing says how: %o', (tool) => {
    const read = accepted({ tools: [tool] })
    expect(read.request.tools).toBeNull()
    expect(read.diagnostics).toEqual([{ code: 'tool-dropped', detail: 'tools[0]: nothing here runs tools of type tool_search' }])
  })

  it('keeps the digits of its arguments, and tells what is no object as it was written', () => {
    const tell = (text: string) => formOf({ tools: [TOOLS[5]] }).plain(answer({ tool_calls: [call('c', text, 'tool_search')] }), IDENTITY)
    expect(tell('{"limit": 1.0, "id": 12345678901234567890}')).toContain('"arguments":{"limit":1.0,"id":12345678901234567890}')
    expect(tell('mail')).toContain('"arguments":"mail"')
  })

  it('brings its tools into the list, and the model is told their names', () => {
    const read = accepted({ input: history, tools: [TOOLS[0]] })
    expect(read.request.tools?.map((tool) => tool.function.name)).toEqual(['f', 'mail__send'])
    expect(read.request.messages).toEqual([
      said({ tool_calls: [call('s', '{"query":"mail"}', 'tool_search')] }),
      { role: 'tool', tool_call_id: 's', content: 'These tools can now be called: mail__send, f' },
    ])
    const form = formOf({ input: history, tools: [TOOLS[0]] })
    const plain = JSON.parse(form.plain(answer({ tool_calls: [call('x', '{}', 'mail__send')] }), IDENTITY))
    expect(plain.output).toMatchObject([{ type: 'function_call', namespace: 'mail', name: 'send' }])
  })

  it('made by the vendor is tolerated in history', () => {
    const made = [
      { type: 'tool_search_call', call_id: null, execution: 'server', arguments: {} },
      { type: 'tool_search_output', call_id: null, execution: 'server', tools: [] },
    ]
    expect(accepted({ input: [...made, { role: 'user', content: 'x' }] }).request.messages).toEqual([{ role: 'user', content: 'x' }])
  })
})

describe('tools that come with the input', () => {
  const item = { type: 'additional_tools', role: 'developer', tools: TOOLS }

  it('join the list, where the same tool again changes nothing', () => {
    const read = accepted({ input: [item, { role: 'developer', content: 'D' }, { role: 'user', content: 'x' }, item], tools: [TOOLS[0]] })
    expect(read.request.tools?.map((tool) => tool.function.name)).toEqual([
      'f',
      'apply_patch',
      'mcp__files____status',
      'mcp__files____write',
      'shell',
      'local_shell',
      'tool_search',
    ])
    expect(read.request.messages).toEqual([
      { role: 'system', content: 'D' },
      { role: 'user', content: 'x' },
    ])
    expect(read.diagnostics.filter(({ code }) => code === 'tool-dropped')).toEqual([])
  })

  it('do not replace a tool that was declared before', () => {
    const other = { type: 'additional_tools', tools: [{ type: 'function', name: 'f', description: 'other' }] }
    const read = accepted({ input: [other], tools: [TOOLS[0]] })
    expect(read.request.tools).toEqual([{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }])
    expect(read.diagnostics).toEqual([{ code: 'tool-dropped', detail: 'input[0].tools[0]: tools[0] has declared it otherwise' }])
  })
})

describe('a choice of tools', () => {
  const forced = (name: string): JsonObject => ({ tool_choice: { type: 'function', function: { name } } })
  it.each<{ choice: unknown; sent: JsonObject }>([
    { choice: 'auto', sent: { tool_choice: 'auto' } },
    { choice: 'none', sent: { tool_choice: 'none' } },
    { choice: 'required', sent: { tool_choice: 'required' } },
    { choice: { type: 'function', name: 'f' }, sent: forced('f') },
    { choice: { type: 'function', namespace: 'mcp__files__', name: 'status' }, sent: forced('mcp__files____status') },
    { choice: { type: 'custom', name: 'apply_patch' }, sent: forced('apply_patch') },
    { choice: { type: 'shell' }, sent: forced('shell') },
    { choice: { type: 'local_shell' }, sent: forced('local_shell') },
  ])('$choice is told to the engine as $sent', ({ choice, sent }) => {
    expect(accepted({ tools: TOOLS, tool_choice: choice }).request.parameters).toEqual(sent)
  })

  it.each(['auto', 'none'])('%s forces nothing, and goes into training as well', (choice) => {
    expect(accepted({ tools: TOOLS, tool_choice: choice }, 'train').request.parameters).toEqual({ tool_choice: choice })
  })

  it('among allowed tools shows the engine those only, and every call is still told in its own form', () => {
    const allowed = { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'custom', name: 'apply_patch' }, { type: 'web_search' }] }
    const body = { tools: TOOLS, tool_choice: allowed }
    expect(names(body)).toEqual(['apply_patch'])
    expect(accepted(body).request.parameters).toEqual({ tool_choice: 'auto' })
    expect(accepted(body, 'train').request.parameters).toEqual({ tool_choice: 'auto' })
    expect(accepted(body).diagnostics).toContainEqual({ code: 'tool-dropped', detail: 'tool_choice.tools[1]: web_search' })
  })

  it.each<{ tools: unknown; choice: unknown; param: string }>([
    { tools: [{ type: 'web_search' }, TOOLS[0]], choice: { type: 'web_search' }, param: 'tool_choice' },
    { tools: [TOOLS[0]], choice: { type: 'function', name: 'gone' }, param: 'tool_choice' },
    { tools: [], choice: { type: 'function', name: 'f' }, param: 'tool_choice' },
    { tools: [TOOLS[0]], choice: { type: 'mcp', server_label: 's' }, param: 'tool_choice' },
    { tools: [TOOLS[0]], choice: { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'web_search' }] }, param: 'tool_choice.tools' },
  ])('of a tool that cannot be served is refused: $choice', ({ tools, choice, param }) => {
    expect(refused({ tools, tool_choice: choice }, 'train')).toMatchObject({ code: 'invalid-request', status: 400, param })
  })
})
