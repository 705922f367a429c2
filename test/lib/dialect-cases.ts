// Conversations that every dialect can tell, described in none of them, and the pivot each must become.
import type { ChatMessage, ContentPart, Tool } from '../../src/proxy/chat.ts'
import type { JsonObject } from '../../src/proxy/json.ts'

/** `arguments` is the text as it was sampled. */
type NeutralCall = { readonly id: string; readonly name: string; readonly arguments: string }

type AssistantTurn = {
  readonly type: 'assistant'
  /** The call whose answer this is, which a signature names in the dialects that have one. */
  readonly origin: string | null
  readonly reasoning: string
  readonly text: string
  readonly calls: readonly NeutralCall[]
}

export type NeutralTurn =
  /** `image`: base64 of a PNG, after the text. */
  | { readonly type: 'user'; readonly text: string; readonly image: string | null }
  | AssistantTurn
  /** `late`: what the user says in the same breath. A result is an object, the one thing that all dialects can carry. */
  | { readonly type: 'results'; readonly results: readonly NeutralResult[]; readonly late: string | null }
  /** A system message in the middle. */
  | { readonly type: 'note'; readonly text: string }

type NeutralResult = { readonly id: string; readonly name: string; readonly value: JsonObject }

type NeutralTool = { readonly name: string; readonly description: string; readonly schema: JsonObject }

export type NeutralRequest = {
  readonly system: string | null
  readonly turns: readonly NeutralTurn[]
  readonly tools: readonly NeutralTool[]
  readonly choice: 'auto' | 'none' | 'required' | { readonly name: string } | null
  readonly thinking: 'on' | 'off' | null
  readonly maxTokens: number
  readonly temperature: number | null
  readonly topP: number | null
  /** Empty where a dialect has none. */
  readonly stop: readonly string[]
}

const ask = (request: Partial<NeutralRequest>): NeutralRequest => ({
  system: null,
  turns: [user('hi')],
  tools: [],
  choice: null,
  thinking: null,
  maxTokens: 64,
  temperature: null,
  topP: null,
  stop: [],
  ...request,
})

const user = (text: string, image: string | null = null): NeutralTurn => ({ type: 'user', text, image })
const assistant = (turn: Partial<AssistantTurn>): AssistantTurn => ({
  type: 'assistant',
  origin: null,
  reasoning: '',
  text: '',
  calls: [],
  ...turn,
})
const call = (id: string, name: string, args: string): NeutralCall => ({ id, name, arguments: args })
const result = (id: string, name: string, value: JsonObject): NeutralResult => ({ id, name, value })
const results = (late: string | null, ...given: readonly NeutralResult[]): NeutralTurn => ({ type: 'results', results: given, late })

const LIST: NeutralTool = {
  name: 'list_directory',
  description: 'Lists what a folder holds.',
  schema: { type: 'object', properties: { path: { type: 'string' }, type: { type: 'string', enum: ['FILE'] } }, required: ['path'] },
}
const EDIT: NeutralTool = { name: 'edit', description: 'Edits a file.', schema: { type: 'object', properties: {} } }

const PNG = 'iVBORw0KGgo='
const CALL = 'c0ffee'.padEnd(32, '0')
const TEXTS = '\n  é 漢字 👩‍👩‍👧 "quoted" \\ \u2028 <&> \t'

export const REQUESTS: Readonly<Record<string, NeutralRequest>> = {
  'a user alone': ask({}),
  'a system prompt and a user': ask({ system: 'You are terse.\n' }),
  'a text in awkward characters': ask({ system: TEXTS, turns: [user(TEXTS)] }),
  'an image': ask({ turns: [user('what is this?', PNG)] }),
  'an assistant that spoke': ask({ turns: [user('a'), assistant({ text: 'b' }), user('c')] }),
  'an assistant that thought': ask({ turns: [user('a'), assistant({ origin: CALL, reasoning: ' R\n', text: 'b' }), user('c')] }),
  'a call and its result': ask({
    turns: [
      user('a'),
      assistant({ calls: [call('call_1', 'edit', '{"x": 1}')] }),
      results(null, result('call_1', 'edit', { output: 'done' })),
    ],
    tools: [EDIT],
  }),
  'parallel calls and their results': ask({
    turns: [
      user('a'),
      assistant({ calls: [call('call_1', 'edit', '{}'), call('call_2', 'edit', '{"y":{"b":[1,null],"a":""}}')] }),
      results(null, result('call_1', 'edit', { output: 1 }), result('call_2', 'edit', { error: 'no' })),
    ],
    tools: [EDIT],
  }),
  'thoughts, words and calls in one turn': ask({
    turns: [
      user('a'),
      assistant({ origin: CALL, reasoning: 'R', text: 'T', calls: [call('call_1', 'edit', '{"x":"é"}')] }),
      results(null, result('call_1', 'edit', { output: TEXTS })),
      assistant({ text: 'U' }),
      user('b'),
    ],
    tools: [LIST, EDIT],
  }),
  'words of the user after results': ask({
    turns: [
      user('a'),
      assistant({ calls: [call('call_1', 'edit', '{}')] }),
      results('and now?', result('call_1', 'edit', { output: 'x' })),
    ],
    tools: [EDIT],
  }),
  'a system message in the middle': ask({
    system: 'S',
    turns: [user('a'), assistant({ text: 'b' }), { type: 'note', text: 'The folder has changed.' }, user('c')],
  }),
  'thinking turned on': ask({ thinking: 'on' }),
  'thinking turned off': ask({ thinking: 'off' }),
  sampling: ask({ temperature: 0.5, topP: 0.75, maxTokens: 7 }),
  'stop strings': ask({ stop: ['END', '\n\n'] }),
  tools: ask({ tools: [LIST, EDIT] }),
  'tools at will': ask({ tools: [LIST, EDIT], choice: 'auto' }),
  'no tool': ask({ tools: [LIST, EDIT], choice: 'none' }),
  'some tool': ask({ tools: [LIST, EDIT], choice: 'required' }),
  'one tool': ask({ tools: [LIST, EDIT], choice: { name: 'edit' } }),
}

/** The request as the engine must be asked, in canonical form where dialects may differ without a difference. */
export function pivotOf(request: NeutralRequest): {
  readonly messages: readonly ChatMessage[]
  readonly tools: readonly Tool[] | null
  readonly parameters: JsonObject
} {
  const { system, turns, tools, choice, thinking, maxTokens, temperature, topP, stop } = request
  return {
    messages: [...(system === null ? [] : [{ role: 'system' as const, content: system }]), ...turns.flatMap(messagesOf)],
    tools:
      tools.length === 0
        ? null
        : tools.map(({ name, description, schema }) => ({ type: 'function', function: { name, description, parameters: schema } })),
    parameters: {
      max_tokens: maxTokens,
      ...(temperature === null ? {} : { temperature }),
      ...(topP === null ? {} : { top_p: topP }),
      ...(stop.length === 0 ? {} : { stop }),
      ...(thinking === null ? {} : { chat_template_kwargs: { enable_thinking: thinking === 'on' } }),
      ...(choice === null || choice === 'auto' ? {} : { tool_choice: choiceOf(choice) }),
    },
  }
}

function choiceOf(choice: 'none' | 'required' | { readonly name: string }): unknown {
  return typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name } }
}

export function dataUrl(base64: string): string {
  return `data:image/png;base64,${base64}`
}

function messagesOf(turn: NeutralTurn): readonly ChatMessage[] {
  switch (turn.type) {
    case 'user':
      return [{ role: 'user', content: turn.image === null ? turn.text : withImage(turn.text, turn.image) }]
    case 'note':
      return [{ role: 'system', content: turn.text }]
    case 'results': {
      const told = turn.results.map(({ id, value }) => ({ role: 'tool' as const, tool_call_id: id, content: JSON.stringify(value) }))
      return turn.late === null ? told : [...told, { role: 'user', content: turn.late }]
    }
    case 'assistant': {
      const { reasoning, text, calls } = turn
      return [
        {
          role: 'assistant',
          content: text,
          ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map(({ id, name, arguments: args }) => ({
                  id,
                  type: 'function' as const,
                  function: { name, arguments: args },
                })),
              }),
        },
      ]
    }
  }
}

function withImage(text: string, image: string): readonly ContentPart[] {
  return [
    { type: 'text', text },
    { type: 'image_url', image_url: { url: dataUrl(image) } },
  ]
}
