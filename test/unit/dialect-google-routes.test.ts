// Google's paths: with and without a version, names that hold slashes and colons, the two stream forms, and whose lists are meant.
import { describe, expect, it } from 'vitest'
import { credentials, detect } from '../../src/proxy/detect.ts'

/** The route, with the dialect by its name. */
function route(line: string, headers: Readonly<Record<string, string>> = {}) {
  const [method = '', url = ''] = line.split(' ')
  const { route: found, session } = detect(method, url, headers)
  return { ...found, ...('dialect' in found ? { dialect: found.dialect.name } : {}), ...(session === null ? {} : { session }) }
}

const generate = (model: string, form: string) => ({ type: 'generate', dialect: 'google', url: { model, form } })
const count = (model: string) => ({ type: 'count', dialect: 'google', url: { model, form: null } })

describe('TO-04: a generation', () => {
  it.each([
    ['POST /v1beta/models/qwen3:streamGenerateContent?alt=sse', generate('qwen3', 'events')],
    ['POST /models/qwen3:streamGenerateContent?alt=sse', generate('qwen3', 'events')],
    ['POST /v1/models/org/name:tag:generateContent', generate('org/name:tag', 'plain')],
    ['POST /v1beta/models/qwen3:streamGenerateContent', generate('qwen3', 'array')],
    ['POST /v1beta/models/qwen3:streamGenerateContent?alt=json', generate('qwen3', 'array')],
    ['POST /v1beta/models/qwen3:streamGenerateContent?key=k&alt=sse', generate('qwen3', 'events')],
    ['POST /v1beta/models/qwen3:streamGenerateContent?$alt=sse', generate('qwen3', 'events')],
    ['POST /v1beta/models/qwen3:streamGenerateContent?%24alt=sse', generate('qwen3', 'events')],
    ['POST /v1alpha/models/qwen3:generateContent', generate('qwen3', 'plain')],
    ['POST /v1beta1/publishers/google/models/qwen3:generateContent', generate('qwen3', 'plain')],
    ['POST /v1beta1/projects/p-1/locations/global/publishers/google/models/qwen3:generateContent', generate('qwen3', 'plain')],
    ['POST /v1beta/models/Qwen%2FQwen3-8B:generateContent', generate('Qwen/Qwen3-8B', 'plain')],
    ['POST /v1beta/models/Qwen/Qwen3-8B:streamGenerateContent?alt=sse', generate('Qwen/Qwen3-8B', 'events')],
    ['POST /v1beta/Qwen/Qwen3-8B:streamGenerateContent?alt=sse', generate('Qwen/Qwen3-8B', 'events')],
    ['POST /v1beta/Qwen/Qwen3-8B:embedContent', { type: 'unknown', dialect: 'google' }],
    ['POST /s/abc/v1beta/models/qwen3:generateContent', { ...generate('qwen3', 'plain'), session: 'abc' }],
    ['POST /v1beta/models/qwen3:countTokens', count('qwen3')],
    ['POST /models/a:b/c:countTokens', count('a:b/c')],
  ])('%s', (line, expected) => {
    expect(route(line)).toEqual(expected)
  })

  it.each([
    'POST /v1beta/models/qwen3:embedContent',
    'POST /v1beta/models/qwen3:batchGenerateContent',
    'POST /v1beta/models/qwen3:generatecontent',
    'POST /v1beta/models/qwen3',
    'POST /v1beta/models/:generateContent',
    'POST /v1beta/models/',
    'PUT /v1beta/models/qwen3:generateContent',
    'POST /v1beta/files',
  ])('%s is none, and says so as Google would', (line) => {
    expect(route(line)).toEqual({ type: 'unknown', dialect: 'google' })
  })
})

describe('models', () => {
  it.each([
    ['GET /v1beta/models', {}, { type: 'models', dialect: 'google' }],
    ['GET /v1beta/models?pageSize=50', {}, { type: 'models', dialect: 'google' }],
    ['GET /models', {}, { type: 'models', dialect: 'google' }],
    ['GET /v1/models', {}, { type: 'models', dialect: 'openai-chat' }],
    ['GET /v1/models', { 'x-goog-api-key': 'k' }, { type: 'models', dialect: 'google' }],
    ['GET /v1/models', { 'x-goog-api-key': 'k', 'anthropic-version': '1' }, { type: 'models', dialect: 'anthropic' }],
    ['GET /v1/models/a/b', { 'x-goog-api-key': 'k' }, { type: 'model', dialect: 'google', model: 'a/b' }],
    ['GET /v1beta/models/a%2Fb', {}, { type: 'model', dialect: 'google', model: 'a/b' }],
    ['HEAD /v1beta/models/a', {}, { type: 'model', dialect: 'google', model: 'a' }],
  ])('%s with %j', (line, headers, expected) => {
    expect(route(line, headers)).toEqual(expected)
  })
})

describe('a key', () => {
  it.each([
    ['/v1beta/models/m:generateContent', { 'x-goog-api-key': 'k' }],
    ['/v1beta/models/m:generateContent?key=k', {}],
    ['/v1beta/models/m:generateContent?alt=sse&key=k', {}],
    ['/v1beta/models/m:generateContent', { authorization: 'Bearer k' }],
  ])('is found: %s with %j', (url, headers) => {
    expect(credentials(url, headers)).toEqual(['k'])
  })

  it('is found beside another', () => {
    expect(credentials('/models/m:generateContent', { authorization: 'Bearer a', 'x-goog-api-key': 'b' })).toEqual(['a', 'b'])
  })
})
