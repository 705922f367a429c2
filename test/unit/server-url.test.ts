import { expect, it } from 'vitest'
import { serverUrl } from '../../src/http/server-url.ts'

it.each([
  [null, '127.0.0.1', 8081, 'http://127.0.0.1:8081'],
  [null, '0.0.0.0', 8081, 'http://127.0.0.1:8081'],
  [null, '::', 8081, 'http://127.0.0.1:8081'],
  [null, '::1', 8081, 'http://[::1]:8081'],
  [null, 'box.example', 8081, 'http://box.example:8081'],
  ['https://box.example/gw/', '0.0.0.0', 8081, 'https://box.example/gw'],
  ['https://box.example', '127.0.0.1', 8081, 'https://box.example'],
])('a server that is called %s and bound to %s:%i is found at %s', (publicUrl, address, port, url) => {
  expect(serverUrl(publicUrl, address, port)).toBe(url)
})
