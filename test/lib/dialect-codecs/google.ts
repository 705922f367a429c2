// A client of Google's generateContent.
import { google } from '../../../src/proxy/dialects/google/dialect.ts'
import { signatureOf } from '../../../src/proxy/dialects/signature.ts'
import { canonicalText } from '../../../src/proxy/json.ts'
import type { Said } from '../dialect-answers.ts'
import type { NeutralTurn } from '../dialect-cases.ts'
import { type Codec, eventsOf } from '../dialect-codec.ts'

type Part = {
  readonly text?: string
  readonly thought?: boolean
  readonly thoughtSignature?: string
  readonly functionCall?: { readonly id: string; readonly name: string; readonly args: object }
}
type Candidate = {
  readonly content: { readonly role: 'model'; readonly parts: readonly Part[] }
  readonly finishReason?: string
  readonly index: number
}
type Reply = {
  readonly candidates: readonly [Candidate]
  readonly usageMetadata?: {
    readonly promptTokenCount: number
    readonly candidatesTokenCount: number
    readonly thoughtsTokenCount?: number
    readonly totalTokenCount: number
    readonly cachedContentTokenCount?: number
  }
  readonly modelVersion: string
  readonly responseId: string
}

const STATUSES: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  413: 'INVALID_ARGUMENT',
  415: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

const MODES = { auto: 'AUTO', none: 'NONE', required: 'ANY' } as const

export const googleCodec: Codec = {
  dialect: google,
  signs: 'every turn',
  lacks: [],
  url: (isStream) => ({ model: 'm', form: isStream ? 'events' : 'plain' }),
  request({ system, tools, choice, thinking, maxTokens, temperature, topP, stop }, items) {
    return {
      contents: items,
      ...(system === null ? {} : { systemInstruction: { parts: [{ text: system }] } }),
      ...(tools.length === 0
        ? {}
        : {
            tools: [
              { functionDeclarations: tools.map(({ name, description, schema }) => ({ name, description, parametersJsonSchema: schema })) },
            ],
          }),
      ...(choice === null
        ? {}
        : {
            toolConfig: {
              functionCallingConfig:
                typeof choice === 'string' ? { mode: MODES[choice] } : { mode: 'ANY', allowedFunctionNames: [choice.name] },
            },
          }),
      generationConfig: {
        maxOutputTokens: maxTokens,
        ...(temperature === null ? {} : { temperature }),
        ...(topP === null ? {} : { topP }),
        ...(stop.length === 0 ? {} : { stopSequences: stop }),
        ...(thinking === null ? {} : { thinkingConfig: thinking === 'on' ? { includeThoughts: true } : { thinkingBudget: 0 } }),
      },
    }
  },
  items(turn: NeutralTurn) {
    switch (turn.type) {
      case 'user': {
        const image = turn.image === null ? [] : [{ inlineData: { mimeType: 'image/png', data: turn.image } }]
        return [{ role: 'user', parts: [{ text: turn.text }, ...image] }]
      }
      case 'note':
        return [{ role: 'system', parts: [{ text: turn.text }] }]
      case 'results': {
        const told = turn.results.map(({ id, name, value }) => ({ functionResponse: { id, name, response: value } }))
        return [{ role: 'user', parts: [...told, ...(turn.late === null ? [] : [{ text: turn.late }])] }]
      }
      case 'assistant': {
        const signature = turn.origin === null ? {} : { thoughtSignature: signatureOf(turn.origin) }
        const calls = turn.calls.map(({ id, name, arguments: args }, index) => ({
          functionCall: { id, name, args: JSON.parse(args) },
          ...(index === 0 ? signature : {}),
        }))
        return [
          {
            role: 'model',
            parts: [
              ...(turn.reasoning === '' ? [] : [{ text: turn.reasoning, thought: true }]),
              ...(turn.text === '' ? [] : [{ text: turn.text, ...(calls.length === 0 ? signature : {}) }]),
              ...calls,
            ],
          },
        ]
      }
    }
  },
  returned: (reply) => [(reply as Reply).candidates[0].content],
  fold(stream) {
    const replies = eventsOf(stream).map(({ data }): Reply => JSON.parse(data))
    const last = replies.at(-1)
    if (last?.candidates[0].finishReason === undefined) throw new Error('the stream has no finish')
    for (const reply of replies.slice(0, -1)) {
      if (reply.candidates[0].finishReason !== undefined || reply.usageMetadata !== undefined)
        throw new Error('something comes after the finish')
    }
    const parts = replies.flatMap((reply) => reply.candidates[0].content.parts)
    return { ...last, candidates: [{ ...last.candidates[0], content: { role: 'model', parts } }] }
  },
  said(reply): Said {
    const { candidates, usageMetadata: usage } = reply as Reply
    const [{ content, finishReason: finish }] = candidates
    if (content.parts.length === 0 || usage === undefined) throw new Error('an answer has at least one part, and a usage')
    const texts = (isThought: boolean) =>
      content.parts
        .filter((part) => (part.thought === true) === isThought)
        .map((part) => part.text ?? '')
        .join('')
    return {
      reasoning: texts(true),
      text: texts(false),
      calls: content.parts.flatMap(({ functionCall: call }) =>
        call === undefined ? [] : [{ id: call.id, name: call.name, arguments: canonicalText(call.args) }],
      ),
      finish: finish === 'MAX_TOKENS' ? 'length' : finish === 'SAFETY' ? 'filtered' : 'done',
      usage: {
        prompt: usage.promptTokenCount,
        completion: usage.totalTokenCount - usage.promptTokenCount,
        cached: usage.cachedContentTokenCount ?? 0,
      },
    }
  },
  failure(body, status) {
    const { error } = JSON.parse(body)
    if (error.code !== status || error.status !== STATUSES[status]) throw new Error(`not Google's envelope: ${body}`)
    return error.message
  },
  streamFailure(stream) {
    const [event, ...others] = eventsOf(stream)
    const { error } = JSON.parse(event?.data ?? '{}')
    if (others.length > 0 || typeof error.code !== 'number' || typeof error.status !== 'string')
      throw new Error(`not Google's error: ${stream}`)
    return error.message
  },
}
