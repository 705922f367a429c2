// What is asked in each cell of the matrix and what the engine is scripted to say to it: one table for every dialect.
import type { ScriptInput } from '../../src/engine/scripted/script.ts'

export const FORMS = ['plain', 'stream'] as const
export const KINDS = ['text', 'tools', 'parallel tools', 'reasoning', 'image'] as const
export const FAULTS = ['ok', 'overload', 'engine 500', 'abort mid-stream', 'client timeout + retry'] as const

export type Form = (typeof FORMS)[number]
export type Kind = (typeof KINDS)[number]
/** Beside the matrix: thoughts that no tool call follows, which the next prompt leaves out. */
type Topic = Kind | 'musing'
export type Fault = (typeof FAULTS)[number]

export type Tool = { readonly name: string; readonly description: string; readonly schema: Readonly<Record<string, unknown>> }
export type Image = { readonly mediaType: 'image/png'; readonly base64: string }

/** The opening of a conversation, before any dialect has its say. */
export type Ask = {
  readonly system: string
  readonly text: string
  readonly image: Image | null
  readonly tools: readonly Tool[]
  /** True when the client turns thinking on in its dialect's own way. */
  readonly thinks: boolean
  readonly maxTokens: number
}

export type Said = {
  readonly text: string
  readonly reasoning: string
  readonly calls: readonly { readonly name: string; readonly arguments: Readonly<Record<string, unknown>> }[]
}

export type Scenario = {
  readonly ask: Ask
  readonly first: Said
  /** What each call gave back, in order; without calls the user speaks again. */
  readonly results: readonly string[]
  readonly second: Said
}

/** One red pixel. */
export const RED_PIXEL: Image = {
  mediaType: 'image/png',
  base64: 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==',
}

export const READ: Tool = {
  name: 'read_file',
  description: 'Reads a file.',
  schema: { type: 'object', properties: { path: { type: 'string' }, limit: { type: 'number' } }, required: ['path'] },
}
export const SEARCH: Tool = {
  name: 'search',
  description: 'Searches the work tree.',
  schema: { type: 'object', properties: { query: { type: 'string' }, where: { type: 'array', items: { type: 'string' } } } },
}

/** Keys out of order, blanks in strings, a fraction, nesting, and characters that JSON may write in several ways. */
const AWKWARD = { path: 'src/é "quoted"\n\ttab 👋.ts', limit: 0.25, deep: { z: [], a: { nothing: null, yes: true } } }

const USER_SPEAKS = 'And what follows from that?'
/** The engine's time stands still for who asks like this: the answer is there when the test lets it pass. */
const SLOWLY = ' Take your time.'
export const HELD_MS = 60_000

export const said = (text: string, more: Partial<Said> = {}): Said => ({ text, reasoning: '', calls: [], ...more })

const ANSWERS: { readonly [topic in Topic]: Pick<Scenario, 'first' | 'results' | 'second'> } = {
  text: {
    first: said('Hello 👋 & <welcome> "friend",\n\n  two lines; 𝒰nicode at the end: é'),
    results: [],
    second: said('Nothing at all.'),
  },
  tools: {
    first: said('', { calls: [{ name: 'read_file', arguments: AWKWARD }] }),
    results: ['line 1\nline 2 – "é"'],
    second: said('The file has two lines.'),
  },
  'parallel tools': {
    first: said('Three at once.', {
      calls: [
        { name: 'read_file', arguments: { path: 'a.txt' } },
        { name: 'search', arguments: { where: ['src', 'test'], query: 'a: b,  c' } },
        // The same call as the first: only its id tells the two apart.
        { name: 'read_file', arguments: { path: 'a.txt' } },
      ],
    }),
    results: ['first result', 'second result', 'third result'],
    second: said('All three agree.'),
  },
  reasoning: {
    first: said('I will look.', {
      reasoning: 'The user wants certainty.\n\n  So: read first, "then" answer. 🤔',
      calls: [{ name: 'read_file', arguments: { path: 'README.md', limit: 10 } }],
    }),
    results: ['# A title'],
    second: said('It is a title.', { reasoning: 'One line only.' }),
  },
  image: {
    first: said('One red pixel. I look closer.', { calls: [{ name: 'search', arguments: { query: 'pixel' } }] }),
    results: ['no match'],
    second: said('It is alone.'),
  },
  musing: {
    first: said('Yes.', { reasoning: ' A thought with blanks around it,\n\nand a second paragraph. ' }),
    results: [],
    second: said('Still yes.', { reasoning: 'Again.' }),
  },
}

export function scenario(topic: Topic, pace: 'at once' | 'held' = 'at once'): Scenario {
  return {
    ask: {
      system: 'You are terse.',
      text: `${question(topic)}${pace === 'held' ? SLOWLY : ''}`,
      image: topic === 'image' ? RED_PIXEL : null,
      tools: topic === 'text' || topic === 'musing' ? [] : [READ, SEARCH],
      thinks: topic === 'reasoning' || topic === 'musing',
      maxTokens: 4_096,
    },
    ...ANSWERS[topic],
  }
}

export const followUp = USER_SPEAKS

/** Every question of the table with its two answers, and the same ones held. */
export const SCRIPT: ScriptInput = {
  rules: [...KINDS, 'musing' as const].flatMap((topic) => {
    const { first, second } = ANSWERS[topic]
    const asked = question(topic)
    return [
      { match: { first_user_contains: `${asked}${SLOWLY}`, turn: 1 }, choices: [{ ...scripted(first), latency: { ttft_ms: HELD_MS } }] },
      { match: { first_user_contains: asked, turn: 1 }, choices: [scripted(first)] },
      { match: { first_user_contains: asked, turn: 2 }, choices: [scripted(second)] },
    ]
  }),
}

function question(topic: Topic): string {
  return `Please show me ${topic}.`
}

function scripted({ text, reasoning, calls }: Said) {
  return { text, reasoning, tool_calls: calls.map((call) => ({ name: call.name, arguments: { ...call.arguments } })) }
}

/** A question whose answers a test writes itself, one for each turn. */
export const QUESTION = 'Walk the whole way.'

export function scriptOf(turns: readonly Said[]): ScriptInput {
  return {
    rules: turns.map((turn, index) => ({ match: { first_user_contains: QUESTION, turn: index + 1 }, choices: [scripted(turn)] })),
  }
}
