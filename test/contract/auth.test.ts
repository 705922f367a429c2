// Who may ask: the control token is needed on every route, and travels in the URL, in a header or as a bearer.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Credentials, openPolarClient } from './client.ts'
import { type ContractNode, openContractNode } from './contract-node.ts'

let node: ContractNode

beforeAll(async () => {
  node = await openContractNode()
})
afterAll(() => node?.close())

/** Every route of the wire contract; what is a name in it is one that exists nowhere. */
const ROUTES: readonly (readonly [string, string])[] = [
  ['POST', '/rollout/task/submit'],
  ['GET', '/rollout/task/x'],
  ['DELETE', '/rollout/task/x'],
  ['GET', '/rollout/status'],
  ['POST', '/nodes/register'],
  ['POST', '/nodes/x/heartbeat'],
  ['GET', '/nodes'],
  ['GET', '/nodes/x'],
  ['DELETE', '/nodes/x'],
  ['POST', '/callbacks/session_result'],
  ['GET', '/tasks'],
  ['GET', '/tasks/x/sessions'],
  ['GET', '/events'],
  ['GET', '/gateways/g'],
  ['HEAD', '/gateways/g'],
  ['GET', '/gateways/g/health'],
  ['GET', '/gateways/g/v1/models'],
  ['POST', '/gateways/g/v1/tokenize'],
  ['GET', '/gateways/g/admin/inference/status'],
  ['POST', '/gateways/g/admin/inference/pause'],
  ['POST', '/gateways/g/admin/inference/resume'],
  ['GET', '/gateways/g/sessions'],
  ['POST', '/gateways/g/sessions'],
  ['GET', '/gateways/g/sessions/x'],
  ['GET', '/gateways/g/sessions/x/completions'],
  ['DELETE', '/gateways/g/sessions/x'],
  ['GET', '/gateways/g/events'],
  ['POST', '/anything/else'],
]

/** Says nothing that is worth a token: that the node answers. */
const OPEN = ['GET /health']

describe('the token', () => {
  it.each<readonly [Credentials]>([['basic'], ['header'], ['bearer']])('is taken as %s', async (credentials) => {
    expect(await openPolarClient(node.address, credentials).nodes()).toHaveLength(1)
  })

  it.each<readonly [string, Credentials, (token: string) => string]>([
    ['none at all', 'none', (token) => token],
    ['the beginning of it in the URL', 'basic', (token) => token.slice(0, -1)],
    ['another one in the header', 'header', (token) => [...token].reverse().join('')],
    ['an empty bearer', 'bearer', () => ''],
    ['more than it', 'bearer', (token) => `${token}x`],
  ])('is missing with %s', async (_what, credentials, spoil) => {
    const { token } = node.serving
    const address = node.address.replace(encodeURIComponent(token), encodeURIComponent(spoil(token)))
    await expect(openPolarClient(address, credentials).nodes()).rejects.toMatchObject({ status: 401 })
  })

  it('may have any user name beside it', async () => {
    expect(await openPolarClient(node.address.replace('//polar:', '//somebody:')).nodes()).toHaveLength(1)
  })
})

describe('without the token', () => {
  it.each(ROUTES)('%s %s is 401', async (method, path) => {
    const response = await fetch(node.client.base + path, {
      method,
      ...(method === 'POST' ? { headers: { 'content-type': 'application/json' }, body: '{}' } : {}),
    })
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toMatch(/Basic/)
    if (method !== 'HEAD') expect(await response.json()).toEqual({ detail: expect.any(String) })
  })

  it('the health says no more than that the node answers', async () => {
    expect(await openPolarClient(node.address, 'none').health()).toEqual({ status: 'ok', nodes: 1 })
  })

  it('every operation that the node documents is 401, but the open ones', async () => {
    const document = (await (await node.client.send('GET', '/openapi.json')).json()) as {
      readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
    } // OpenAPI has it so
    const operations = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => [method.toUpperCase(), path.replaceAll(/\{[^}]+\}/g, 'x')] as const),
    )
    expect(operations.length).toBeGreaterThanOrEqual(ROUTES.length - 3)
    const open: string[] = []
    for (const [method, path] of operations) {
      const response = await fetch(node.client.base + path, {
        method,
        ...(method === 'GET' || method === 'HEAD' || method === 'DELETE'
          ? {}
          : { headers: { 'content-type': 'application/json' }, body: '{}' }),
      })
      await response.body?.cancel()
      if (response.status !== 401) open.push(`${method} ${path}`)
    }
    expect(open).toEqual(OPEN)
  })

  it('every route of the contract is documented', async () => {
    const document = (await (await node.client.send('GET', '/openapi.json')).json()) as {
      readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>
    } // OpenAPI has it so
    const documented = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{[^}]+\}/g, '*').replace(/(.)\/$/, '$1')}`),
    )
    const wanted = ROUTES.filter(([method, path]) => method !== 'HEAD' && path !== '/anything/else').map(
      ([method, path]) => `${method} ${path.replaceAll(/\/(x|g)(?=\/|$)/g, '/*')}`,
    )
    expect(wanted.filter((route) => !documented.includes(route))).toEqual([])
  })
})
