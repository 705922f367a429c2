// Google generateContent through the official @google/genai SDK.
import {
  ApiError,
  type Content,
  type FunctionDeclaration,
  type GenerateContentConfig,
  GenerateContentResponse,
  GoogleGenAI,
  type Tool as GoogleTool,
  type Part,
} from '@google/genai'
import type { Ask, Tool } from '../scenarios.ts'
import type { Answer, Driver, Endpoint, Wish } from './driver.ts'

export type GoogleHistory = { readonly contents: readonly Content[]; readonly config: GenerateContentConfig }

/** Long enough that the server has seen the connection close which a repeat replaces. */
const REPEAT_AFTER_SECONDS = 0.2

export function googleClient(endpoint: Endpoint, wish: Pick<Wish, 'retries' | 'timeoutMs'> = {}): GoogleGenAI {
  return new GoogleGenAI({
    apiKey: endpoint.key,
    httpOptions: {
      baseUrl: `${endpoint.origin}${endpoint.basePath}`,
      fetch: endpoint.fetch,
      ...(wish.retries === undefined
        ? {}
        : { retryOptions: { attempts: wish.retries + 1, initialDelay: REPEAT_AFTER_SECONDS, expBase: 1, jitter: 0 } }),
      ...(wish.timeoutMs === undefined ? {} : { timeout: wish.timeoutMs }),
    },
  })
}

/** The other face of the SDK: its counting route takes the system prompt and the tools too. */
export function vertexClient(endpoint: Endpoint): GoogleGenAI {
  return new GoogleGenAI({
    vertexai: true,
    apiKey: endpoint.key,
    httpOptions: { baseUrl: `${endpoint.origin}${endpoint.basePath}`, fetch: endpoint.fetch },
  })
}

export const google: Driver<GoogleHistory> = {
  dialect: 'google',
  finishes: { stop: 'STOP', tool_calls: 'STOP', length: 'MAX_TOKENS' },
  signsReasoning: true,
  showsHeaders: false,
  lateFailure: 'thrown',
  begin: ({ system, text, image, tools, thinks, maxTokens }: Ask) => ({
    contents: [
      {
        role: 'user',
        parts: [{ text }, ...(image === null ? [] : [{ inlineData: { mimeType: image.mediaType, data: image.base64 } }])],
      },
    ],
    config: {
      systemInstruction: system,
      maxOutputTokens: maxTokens,
      ...(tools.length === 0 ? {} : { tools: [{ functionDeclarations: tools.map(declaration) }] }),
      ...(thinks ? { thinkingConfig: { includeThoughts: true } } : {}),
    },
  }),
  async send(endpoint, history, wish) {
    const request = {
      model: 'gemini-any',
      contents: [...history.contents],
      config: { ...history.config, ...(wish.signal === undefined ? {} : { abortSignal: wish.signal }) },
    }
    const { models } = googleClient(endpoint, wish)
    const seen: GenerateContentResponse[] = []
    if (wish.form === 'stream') {
      for await (const chunk of await models.generateContentStream(request)) {
        wish.onEvent?.()
        seen.push(chunk)
      }
    } else {
      seen.push(await models.generateContent(request))
    }
    // An agent puts the parts of a stream together into one content and changes none of them.
    const parts = seen.flatMap((response) => response.candidates?.[0]?.content?.parts ?? [])
    return { answer: answerOf(seen, parts), history: { ...history, contents: [...history.contents, { role: 'model', parts }] } }
  },
  async count(endpoint, history) {
    const { systemInstruction, tools } = history.config
    const counted = await vertexClient(endpoint).models.countTokens({
      model: 'gemini-any',
      contents: [...history.contents],
      config: {
        ...(systemInstruction === undefined ? {} : { systemInstruction }),
        // The declared type leaves out tools that only run on the client, which are none of ours.
        ...(tools === undefined ? {} : { tools: tools as GoogleTool[] }),
      },
    })
    return counted.totalTokens ?? Number.NaN
  },
  toolContent: (output) => JSON.stringify({ output }),
  withResults: (history, results) => ({
    ...history,
    contents: [
      ...history.contents,
      {
        role: 'user',
        parts: results.map(({ call, output }) => ({ functionResponse: { id: call.id, name: call.name, response: { output } } })),
      },
    ],
  }),
  withUser: (history, text) => ({ ...history, contents: [...history.contents, { role: 'user', parts: [{ text }] }] }),
  isStatusError: (error, status) => error instanceof ApiError && error.status === status,
  isAbort: (error) => error instanceof DOMException && error.name === 'AbortError',
  retryAfter: () => null,
  errorWords: {
    400: 'INVALID_ARGUMENT',
    401: 'UNAUTHENTICATED',
    403: 'PERMISSION_DENIED',
    404: 'NOT_FOUND',
    413: 'INVALID_ARGUMENT',
    415: 'INVALID_ARGUMENT',
    429: 'RESOURCE_EXHAUSTED',
  },
  errorWord: (error) => (error instanceof ApiError ? JSON.parse(error.message).error.status : null),
}

function declaration({ name, description, schema }: Tool): FunctionDeclaration {
  return { name, description, parametersJsonSchema: schema }
}

function answerOf(responses: readonly GenerateContentResponse[], parts: readonly Part[]): Answer {
  for (const response of responses) if (!(response instanceof GenerateContentResponse)) throw new Error('not the SDK’s own object')
  const finishes = responses.flatMap((response) => response.candidates?.[0]?.finishReason ?? [])
  if (finishes.length > 1) throw new Error(`${finishes.length} finish reasons in one answer`)
  const usage = responses.findLast((response) => response.usageMetadata !== undefined)?.usageMetadata
  const thoughts = parts.filter((part) => part.thought === true)
  return {
    text: parts.map((part) => (part.thought === true ? '' : (part.text ?? ''))).join(''),
    reasoning: thoughts.map((part) => part.text ?? '').join(''),
    signature: parts.find((part) => part.thoughtSignature !== undefined)?.thoughtSignature ?? null,
    calls: parts.flatMap(({ functionCall }) =>
      functionCall === undefined
        ? []
        : [{ id: functionCall.id ?? '', name: functionCall.name ?? '', arguments: functionCall.args, argumentText: null }],
    ),
    finish: finishes[0] ?? null,
    usage: {
      input: usage?.promptTokenCount,
      output: usage === undefined ? undefined : (usage.candidatesTokenCount ?? 0) + (usage.thoughtsTokenCount ?? 0),
      total: usage?.totalTokenCount ?? null,
    },
  }
}
