// The control token: made once, kept private, and never empty.
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isAuthorized, openControlToken } from '../../src/http/token.ts'

let folder: string
let file: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'polar-token-'))
  file = join(folder, 'data', 'control-token')
})
afterEach(() => rm(folder, { recursive: true }))

describe('the control token', () => {
  it('is made at the first start, of 32 random bytes, readable by its owner only, and read at the next', async () => {
    const first = await openControlToken(file, undefined)
    if (!first.ok) throw new Error(first.problem)
    expect(first.source).toBe('created')
    expect(Buffer.from(first.token, 'base64url')).toHaveLength(32)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await openControlToken(file, undefined)).toEqual({ ok: true, token: first.token, source: 'file' })
  })

  it('is the same for two starts at once', async () => {
    const tokens = await Promise.all(Array.from({ length: 8 }, () => openControlToken(file, '')))
    const made = tokens.filter((token) => token.ok && token.source === 'created')
    expect(made).toHaveLength(1)
    expect(new Set(tokens.map((token) => (token.ok ? token.token : token.problem))).size).toBe(1)
    expect(await readdir(join(folder, 'data'))).toEqual(['control-token'])
  })

  it('comes from the environment when that names one, and no file is written', async () => {
    expect(await openControlToken(file, ' from-the-environment ')).toEqual({
      ok: true,
      token: 'from-the-environment',
      source: 'environment',
    })
    await expect(readFile(file)).rejects.toThrow('ENOENT')
  })

  it('is always required: an empty variable does not switch it off', async () => {
    expect(await openControlToken(file, '   ')).toMatchObject({ ok: true, source: 'created' })
  })

  it('is refused when others could read it, and when it is empty', async () => {
    await openControlToken(file, undefined)
    await chmod(file, 0o644)
    expect(await openControlToken(file, undefined)).toEqual({ ok: false, problem: expect.stringContaining('chmod 600') })
    await chmod(file, 0o600)
    await writeFile(file, '\n')
    expect(await openControlToken(file, undefined)).toEqual({ ok: false, problem: expect.stringContaining('empty') })
  })

  it('says why it cannot be written', async () => {
    await writeFile(join(folder, 'data'), 'a file where the folder should be')
    expect(await openControlToken(file, undefined)).toEqual({ ok: false, problem: expect.stringContaining(file) })
  })
})

describe('authorisation', () => {
  const basic = (pair: string) => ({ authorization: `Basic ${Buffer.from(pair).toString('base64')}` })
  it.each([
    [{}, false],
    [{ authorization: 'Bearer t0ken' }, true],
    [{ authorization: 'bearer   t0ken ' }, true],
    [{ authorization: 't0ken' }, false],
    [{ authorization: 'Bearer' }, false],
    [{ authorization: 'Bearer t0ken extra' }, false],
    [{ authorization: 'Token t0ken' }, false],
    [{ 'x-polar-control-token': 't0ken' }, true],
    [{ 'x-polar-control-token': 't0ke' }, false],
    [{ 'x-polar-control-token': '' }, false],
    [basic('polar:t0ken'), true],
    [basic(':t0ken'), true],
    [basic('a:b:t0ken'), false],
    [basic('t0ken'), false],
    [{ authorization: 'Basic !!!' }, false],
    [{ authorization: 'Bearer wrong', 'x-polar-control-token': 't0ken' }, true],
  ])('%j is %j', (headers, allowed) => expect(isAuthorized(headers, 't0ken')).toBe(allowed))
})
