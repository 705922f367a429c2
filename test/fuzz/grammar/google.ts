// Valid Google generateContent requests: every part and tool kind, models in the path, and the histories clients build from answers.
import type { Dice } from '../dice.ts'
import { distinctNames, hexId, jsonObject, PIXEL, schema, text, textOrEmpty, words } from '../words.ts'
import {
  type Body,
  type Grammar,
  type Kept,
  listOf,
  openRefusable,
  RARE,
  type Refusable,
  type Setting,
  type ValidRequest,
} from './grammar.ts'

export const googleGrammar: Grammar = {
  dialect: 'google',
  request(dice, setting) {
    const refusable = openRefusable()
    const body = {
      ...conversation(dice, setting, refusable),
      ...toolFields(dice, setting, refusable),
      ...generationFields(dice, setting, refusable),
      ...extras(dice, refusable),
    }
    return requestOf(dice, body, refusable.reasons)
  },
  nextTurn(dice, setting, { request, kept }) {
    const contents = [
      ...listOf(request.body, 'contents'),
      { role: 'model', parts: returned(dice, kept) },
      ...reactions(dice, kept, setting),
    ]
    return requestOf(dice, { ...request.body, contents }, request.refusable)
  },
  count(dice, setting) {
    const refusable = openRefusable()
    const contents = conversation(dice, setting, refusable)
    const path = `${modelPath(dice)}:countTokens`
    const request = { model: 'models/any', ...contents, ...toolFields(dice, setting, refusable) }
    return { path, body: dice.chance(0.5) ? contents : { generateContentRequest: request }, refusable: refusable.reasons }
  },
}

function modelPath(dice: Dice): string {
  const version = dice.pick(['/v1beta', '/v1beta', '/v1', '/v1beta1/publishers/google', ''])
  return `${version}/models/${dice.pick(['gemini-any', 'Qwen/Qwen3-8B', 'org%2Fmodel', 'model:free', 'mod%C3%A8le'])}`
}

function requestOf(dice: Dice, body: Body, refusable: readonly string[]): ValidRequest {
  const form = dice.pick(['plain', 'events', 'array', 'events'] as const)
  const verb = form === 'plain' ? 'generateContent' : 'streamGenerateContent'
  const query = form === 'events' ? dice.pick(['?alt=sse', '?alt=sse&foo=bar']) : dice.pick(['', '?foo=bar'])
  return { path: `${modelPath(dice)}:${verb}`, query, body, form, refusable }
}

function conversation(dice: Dice, setting: Setting, refusable: Refusable): Body {
  return {
    ...dice.maybe(0.6, dice.pick(['systemInstruction', 'system_instruction']), () => systemInstruction(dice)),
    contents: [...history(dice, refusable), lastContent(dice, setting, refusable)],
  }
}

function systemInstruction(dice: Dice): Body {
  return { ...dice.maybe(0.5, 'role', () => dice.pick(['user', 'system'])), parts: dice.list(1, 2, () => ({ text: textOrEmpty(dice) })) }
}

function userPart(dice: Dice, refusable: Refusable): Body {
  return dice.weighted<() => Body>([
    [12, () => ({ text: textOrEmpty(dice) })],
    [2, () => ({ inlineData: { mimeType: 'image/png', data: PIXEL } })],
    [RARE, () => refusable.because('file-address', { fileData: { mimeType: 'image/png', fileUri: 'https://images.example/a.png' } })],
    [RARE, () => refusable.because('inline-document', { inlineData: { mimeType: 'application/pdf', data: PIXEL } })],
    [RARE, () => refusable.because('file-document', { fileData: { mimeType: 'video/mp4', fileUri: 'https://videos.example/a' } })],
  ])()
}

function lastContent(dice: Dice, { mark }: Setting, refusable: Refusable): Body {
  const parts = [...dice.list(0, 2, () => userPart(dice, refusable)), { text: `${text(dice)} ${mark}` }]
  return { ...dice.maybe(0.9, 'role', () => 'user'), parts }
}

function history(dice: Dice, refusable: Refusable): readonly Body[] {
  return dice
    .list(0, 3, () => [{ role: 'user', parts: dice.list(1, 3, () => userPart(dice, refusable)) }, ...modelTurn(dice, refusable)])
    .flat()
}

function modelTurn(dice: Dice, refusable: Refusable): readonly Body[] {
  const calls = dice.list(0, 2, () => ({
    name: dice.pick(['read', 'bash', 'gone_tool']),
    ...dice.maybe(0.8, 'args', () => jsonObject(dice)),
    ...dice.maybe(0.6, 'id', () => hexId(dice, 'fc_')),
  }))
  const parts: readonly Body[] = [
    ...(dice.chance(0.3) ? [{ text: textOrEmpty(dice), thought: true, ...dice.maybe(0.5, 'thoughtSignature', () => 'Zm9yZWlnbg==') }] : []),
    ...(dice.chance(0.7) || calls.length === 0 ? [{ text: textOrEmpty(dice) }] : []),
    ...(dice.chance(0.06)
      ? [{ executableCode: { language: 'PYTHON', code: 'print(1)' } }, { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } }]
      : []),
    ...calls.map((functionCall) => ({ functionCall, ...dice.maybe(0.2, 'thoughtSignature', () => 'skip_thought_signature_validator') })),
  ]
  if (calls.length === 0) return [{ role: 'model', parts }]
  const responses = calls.map(({ name, ...call }) => ({
    functionResponse: { name, ...('id' in call ? { id: call.id } : {}), response: result(dice) },
  }))
  const beside = dice.list(0, 1, () => userPart(dice, refusable))
  return [
    { role: 'model', parts },
    { role: dice.pick(['user', 'user', 'function']), parts: dice.chance(0.7) ? [...responses, ...beside] : [...beside, ...responses] },
  ]
}

function result(dice: Dice): Body {
  return dice.pick<Body>([{ output: textOrEmpty(dice) }, { error: words(dice) }, { content: [{ type: 'text', text: words(dice) }] }, {}])
}

/** The answer's parts as harnesses return them: whole, without the thoughts, without ids, or without signatures. */
function returned(dice: Dice, kept: Kept): readonly Body[] {
  const way = dice.weighted([
    [5, 'whole'],
    [3, 'unthinking'],
    [2, 'unsigned'],
  ])
  if (way === 'whole') return kept.items
  const parts = way === 'unthinking' ? kept.items.filter((part) => part.thought !== true) : kept.items
  const bare = way === 'unsigned' ? parts.map(({ thoughtSignature: _gone, ...part }) => part) : parts
  return bare.length === 0 ? kept.items : bare
}

function reactions(dice: Dice, kept: Kept, { mark }: Setting): readonly Body[] {
  const said = { role: 'user', parts: [{ text: `${text(dice)} ${mark}` }] }
  if (kept.calls.length === 0) return [said]
  const answers = dice.chance(0.5)
  const responses = kept.calls.map(({ id, name }, index) => ({
    functionResponse: {
      name,
      id,
      response: answers && index === kept.calls.length - 1 ? { output: `${textOrEmpty(dice)}${mark}` } : result(dice),
    },
  }))
  return [{ role: 'user', parts: responses }, ...(answers ? [] : [said])]
}

function toolFields(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  if (dice.chance(0.35)) return dice.chance(0.1) ? { tools: [] } : {}
  const names = distinctNames(dice, 1, 4)
  const constrained = (choice: unknown) => (tier === 'train' ? refusable.because('toolConfig', choice) : choice)
  const config = dice.weighted<() => unknown>([
    [6, () => ({ mode: 'AUTO' })],
    [3, () => ({ mode: 'NONE' })],
    [1, () => constrained({ mode: dice.pick(['ANY', 'VALIDATED']) })],
    [1, () => constrained({ mode: 'ANY', allowedFunctionNames: [names[0]] })],
  ])
  return {
    tools: [
      { functionDeclarations: names.map((name) => declaration(dice, name)) },
      ...dice.list(0, 1, () => dice.pick([{ googleSearch: {} }, { codeExecution: {} }, { urlContext: {} }])).filter(() => dice.chance(0.3)),
    ],
    ...dice.maybe(0.4, dice.pick(['toolConfig', 'tool_config']), () => ({ functionCallingConfig: config() })),
  }
}

function declaration(dice: Dice, name: string): Body {
  return {
    name,
    ...dice.maybe(0.8, 'description', () => text(dice)),
    ...dice.pick<() => Body>([
      () => ({ parameters: schema(dice, 'upper') }),
      () => ({ parametersJsonSchema: schema(dice) }),
      () => ({ parameters: schema(dice) }),
      () => ({}),
    ])(),
    ...dice.maybe(0.1, 'response', () => ({ type: 'OBJECT' })),
  }
}

function generationFields(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  if (dice.chance(0.2)) return {}
  const structured = { responseMimeType: 'application/json', responseSchema: schema(dice, 'upper') }
  const fields = {
    ...dice.maybe(0.5, 'maxOutputTokens', () => dice.pick([1, 5, 64, 400, 2_000])),
    ...dice.maybe(0.3, 'temperature', () => dice.pick([0, 0.7, 2])),
    ...dice.maybe(0.2, 'topP', () => 0.95),
    ...dice.maybe(0.2, 'topK', () => dice.pick([1, 64])),
    ...dice.maybe(0.1, 'seed', () => dice.whole(0, 1e6)),
    ...dice.maybe(0.1, 'presencePenalty', () => 0.1),
    ...dice.maybe(0.2, 'stopSequences', () => dice.pick([['\n\n'], ['the', 'zzz'], []])),
    ...dice.maybe(0.1, 'candidateCount', () => 1),
    ...dice.maybe(0.3, 'thinkingConfig', () =>
      dice.pick([{ includeThoughts: true }, { thinkingBudget: 0 }, { includeThoughts: false, thinkingLevel: 'LOW' }]),
    ),
    ...dice.maybe(0.1, 'responseMimeType', () => 'text/plain'),
    ...(dice.chance(0.03) ? (tier === 'train' ? refusable.because('responseSchema', structured) : structured) : {}),
    ...dice.maybe(0.1, 'responseModalities', () => ['TEXT']),
  }
  return dice.chance(0.8) ? { generationConfig: fields } : { config: fields }
}

function extras(dice: Dice, refusable: Refusable): Body {
  return {
    ...dice.maybe(0.2, 'safetySettings', () => [{ category: 'HARM_CATEGORY_HARASSMENT', threshold: 'BLOCK_NONE' }]),
    ...dice.maybe(0.05, 'cachedContent', () => refusable.because('cachedContent', 'cachedContents/1')),
    ...dice.maybe(0.1, 'labels', () => ({ a: 'b' })),
    ...dice.maybe(0.05, 'model', () => 'models/other'),
    ...dice.maybe(0.05, 'someNewField', () => jsonObject(dice)),
  }
}
