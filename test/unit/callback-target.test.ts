// Which addresses a trainer may name for its callbacks.
import { describe, expect, it } from 'vitest'
import { parseRetryAfter } from '../../src/actors/callback/actor.ts'
import { checkTarget } from '../../src/actors/callback/target.ts'

describe('a callback target', () => {
  it.each([
    'http://127.0.0.1:9000/callback',
    'http://localhost/callback',
    'http://[::1]:80/',
    'https://trainer.example/cb?x=1',
    'http://10.1.2.3/',
    'http://192.168.0.7:1/',
  ])('may be %s', (url) => expect(checkTarget(url)).toBeNull())

  it.each([
    ['not a url', 'absolute URL'],
    ['ftp://127.0.0.1/', 'http or https'],
    ['file:///etc/passwd', 'http or https'],
    ['http://169.254.169.254/latest/meta-data', 'metadata'],
    ['http://2852039166/', 'metadata'],
    ['http://0xa9fea9fe/', 'metadata'],
    ['http://169.254.1/', 'metadata'],
    ['http://[::ffff:169.254.169.254]/', 'metadata'],
    ['http://[64:ff9b::169.254.169.254]/', 'metadata'],
    ['http://[fe80::1]/', 'metadata'],
    ['http://[fd00:ec2::254]/', 'metadata'],
    ['http://100.100.100.200/', 'metadata'],
    ['http://Metadata.Google.Internal/', 'metadata'],
    ['http://metadata.google.internal./', 'metadata'],
    ['http://224.0.0.1/', 'multicast'],
  ])('may not be %s', (url, problem) => expect(checkTarget(url)).toContain(problem))
})

describe('Retry-After', () => {
  const wallMs = Date.UTC(2026, 0, 1, 12, 0, 0)
  it.each([
    ['3', 3_000],
    [' 120 ', 120_000],
    ['Thu, 01 Jan 2026 12:00:30 GMT', 30_000],
    ['Thu, 01 Jan 2026 11:00:00 GMT', 0],
    ['soon', null],
    [null, null],
  ])('%j means %j ms', (header, ms) => expect(parseRetryAfter(header, wallMs)).toBe(ms))
})
