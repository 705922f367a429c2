// Where names may lead a callback, with a resolver whose answers the test chooses.
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { type CallbackTransport, openTransport } from '../../src/actors/callback/transport.ts'

type Found = readonly { readonly address: string; readonly family: number }[]

const resolver = vi.hoisted(() => ({ answers: new Map<string, Found>() }))
vi.mock('node:dns', async (original) => ({
  ...(await original<typeof import('node:dns')>()),
  lookup: (name: string, _options: object, callback: (error: Error | null, found: Found) => void) => {
    const found = resolver.answers.get(name)
    callback(found === undefined ? new Error(`no answer for ${name}`) : null, found ?? [])
  },
}))

let server: Server
let port: number
let requests = 0
let transport: CallbackTransport

beforeAll(async () => {
  server = createServer((_, response) => {
    requests += 1
    response.end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})
beforeEach(() => {
  requests = 0
  resolver.answers.clear()
  transport = openTransport()
})
afterEach(() => transport.close())
afterAll(() => new Promise((resolve) => server.close(resolve)))

const post = () => transport.post(`http://trainer.test:${port}/cb`, {}, Buffer.from('{}'), AbortSignal.timeout(10_000))

describe('a callback to a name', () => {
  it.each([
    ['the metadata service', [{ address: '169.254.169.254', family: 4 }]],
    ['a link-local address', [{ address: 'fe80::1', family: 6 }]],
    [
      'forbidden addresses only',
      [
        { address: '169.254.169.254', family: 4 },
        { address: 'fd00:ec2::254', family: 6 },
      ],
    ],
  ])('is refused when it resolves to %s', async (_, found) => {
    resolver.answers.set('trainer.test', found)
    await expect(post()).rejects.toThrow('trainer.test resolves only to addresses that callbacks may not reach')
  })

  it('goes to the addresses that are allowed', async () => {
    resolver.answers.set('trainer.test', [
      { address: '169.254.169.254', family: 4 },
      { address: '127.0.0.1', family: 4 },
    ])
    expect(await post()).toMatchObject({ status: 200 })
    expect(requests).toBe(1)
  })

  it('fails when it does not resolve', async () => {
    await expect(post()).rejects.toThrow('no answer for trainer.test')
  })
})
