// What Google's clients do with parts: calls that come back without their ids, results that hold images, bodies that are arrays.
import type { Content, GenerateContentConfig, GenerateContentResponse, Part } from '@google/genai'
import { describe, expect, it } from 'vitest'
import { googleClient } from './drivers/google.ts'
import { expectExactTokens, expectExtension, type Gateway, lastMessages, openGateway } from './gateway.ts'
import { FORMS, type Form, QUESTION, READ, RED_PIXEL, SEARCH, said, scriptOf } from './scenarios.ts'

async function ask(opened: Gateway, form: Form, contents: Content[], config: GenerateContentConfig): Promise<Content> {
  const { models } = googleClient(opened.endpoint)
  const request = { model: 'gemini-any', contents, config }
  const seen: GenerateContentResponse[] = []
  if (form === 'plain') seen.push(await models.generateContent(request))
  else for await (const chunk of await models.generateContentStream(request)) seen.push(chunk)
  return { role: 'model', parts: seen.flatMap((response) => response.candidates?.[0]?.content?.parts ?? []) }
}

const CONFIG: GenerateContentConfig = {
  tools: [
    { functionDeclarations: [READ, SEARCH].map(({ name, description, schema }) => ({ name, description, parametersJsonSchema: schema })) },
  ],
}
const BEGUN: Content = { role: 'user', parts: [{ text: QUESTION }] }
const CALLS = [
  { name: READ.name, arguments: { path: 'a' } },
  { name: SEARCH.name, arguments: { query: 'b' } },
  { name: READ.name, arguments: { path: 'a' } },
]

describe('google', () => {
  it.for(FORMS)('pairs results with calls by name and order when a client drops the ids, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('I read.', { reasoning: 'Read.', calls: CALLS }), said('Read.')]) })
    onTestFinished(opened.close)
    const config = { ...CONFIG, thinkingConfig: { includeThoughts: true } }
    const first = await ask(opened, form, [BEGUN], config)
    // Older clients know neither ids nor signatures, and leave thoughts out of history.
    const kept = (first.parts ?? []).flatMap(({ text, thought, functionCall }): Part[] => {
      if (thought === true) return []
      if (functionCall === undefined) return text === undefined ? [] : [{ text }]
      const { id: _id, ...rest } = functionCall
      return [{ functionCall: rest }]
    })
    const results: Part[] = CALLS.map(({ name }, index) => ({ functionResponse: { name, response: { output: `result ${index}` } } }))
    const second = await ask(opened, form, [BEGUN, { role: 'model', parts: kept }, { role: 'user', parts: results }], config)
    expect(second.parts?.map((part) => part.text).join('')).toBe('Read.')
    expectExtension(opened)
    const told = lastMessages(opened)
    const asked = told.flatMap((message) => message.tool_calls ?? [])
    expect(told.filter(({ role }) => role === 'tool')).toEqual(
      asked.map(({ id }, index) => ({ role: 'tool', tool_call_id: id, content: JSON.stringify({ output: `result ${index}` }) })),
    )
    await expectExactTokens(opened)
  })

  it.for(FORMS)('shows the engine an image that a tool gave back, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('', { calls: CALLS.slice(0, 1) }), said('Red.')]) })
    onTestFinished(opened.close)
    const first = await ask(opened, form, [BEGUN], CONFIG)
    const call = first.parts?.flatMap((part) => part.functionCall ?? [])[0]
    const result: Part = {
      functionResponse: {
        id: call?.id ?? '',
        name: READ.name,
        response: { output: 'one image' },
        parts: [{ inlineData: { mimeType: RED_PIXEL.mediaType, data: RED_PIXEL.base64 } }],
      },
    }
    await ask(opened, form, [BEGUN, first, { role: 'user', parts: [result] }], CONFIG)
    expectExtension(opened)
    const rest = JSON.stringify(lastMessages(opened).slice(2))
    expect(rest).toContain('one image')
    expect(rest).toContain(JSON.stringify(`data:${RED_PIXEL.mediaType};base64,${RED_PIXEL.base64}`))
  })

  it.for(FORMS)('takes a conversation whose parts are spread over several contents of one role, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ script: scriptOf([said('I read.', { reasoning: 'Read.', calls: CALLS }), said('Read.')]) })
    onTestFinished(opened.close)
    const config = { ...CONFIG, thinkingConfig: { includeThoughts: true } }
    const first = await ask(opened, form, [BEGUN], config)
    const spread = (first.parts ?? []).map((part): Content => ({ role: 'model', parts: [part] }))
    const calls = (first.parts ?? []).flatMap((part) => part.functionCall ?? [])
    const results = calls.map(
      ({ id = '', name = '' }): Content => ({ role: 'user', parts: [{ functionResponse: { id, name, response: { output: 'read' } } }] }),
    )
    await ask(opened, form, [BEGUN, ...spread, ...results], config)
    expectExtension(opened)
    await expectExactTokens(opened)
  })

  it('streams one JSON array to who does not ask for events', async ({ onTestFinished }) => {
    const opened = await openGateway({ settings: { commitAfterMs: 5, beatEveryMs: 5 } })
    onTestFinished(opened.close)
    const { origin, basePath, key } = opened.endpoint
    const response = await fetch(`${origin}${basePath}/v1beta/models/org/model:streamGenerateContent?key=${key}`, {
      method: 'POST',
      body: JSON.stringify({ contents: [{ role: 'user', parts: [{ text: 'Please show me text.' }] }] }),
    })
    expect(response.headers.get('content-type')).toBe('application/json')
    const all = (await response.json()) as readonly GenerateContentResponse[]
    expect(all.at(-1)?.candidates?.[0]).toMatchObject({ finishReason: 'STOP' })
    await expectExactTokens(opened)
  })
})
