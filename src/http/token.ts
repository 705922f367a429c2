// The control token: made once, readable by its owner only, compared in constant time.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { link, mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import type { IncomingHttpHeaders } from 'node:http'
import { dirname } from 'node:path'

export type ControlToken =
  /** `created`: nobody has seen it yet, so the caller prints it once. */
  | { readonly ok: true; readonly token: string; readonly source: 'environment' | 'file' | 'created' }
  | { readonly ok: false; readonly problem: string }

const TOKEN_BYTES = 32

/** `environment` is the value of POLAR_CONTROL_PLANE_TOKEN; an empty one counts as not set, since a token is always required. */
export async function openControlToken(file: string, environment: string | undefined): Promise<ControlToken> {
  const given = environment?.trim() ?? ''
  if (given !== '') return { ok: true, token: given, source: 'environment' }
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    return (await createFile(file, `${token}\n`)) ? { ok: true, token, source: 'created' } : readToken(file)
  } catch (error) {
    return { ok: false, problem: `the control token cannot be written to ${file}: ${textOf(error)}` }
  }
}

/** Accepts `Authorization: Bearer`, `X-Polar-Control-Token` and the password of `Authorization: Basic`. */
export function isAuthorized(headers: IncomingHttpHeaders, token: string): boolean {
  return presentedTokens(headers).some((presented) => isSame(presented, token))
}

/** The name appears with the whole content or not at all, and only once, so that two starts at once agree on one token. */
async function createFile(file: string, content: string): Promise<boolean> {
  const draft = `${file}.${randomBytes(8).toString('hex')}`
  try {
    const handle = await open(draft, 'wx', 0o600)
    try {
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await link(draft, file)
    return true
  } catch (error) {
    if (isExisting(error)) return false
    throw error
  } finally {
    await rm(draft, { force: true })
  }
}

async function readToken(file: string): Promise<ControlToken> {
  try {
    const { mode } = await stat(file)
    if ((mode & 0o077) !== 0) return { ok: false, problem: `the control token in ${file} is readable by others: run chmod 600 on it` }
    const token = (await readFile(file, 'utf8')).trim()
    if (token === '') return { ok: false, problem: `the control token in ${file} is empty: delete the file to have a new one made` }
    return { ok: true, token, source: 'file' }
  } catch (error) {
    return { ok: false, problem: `the control token cannot be read from ${file}: ${textOf(error)}` }
  }
}

function presentedTokens(headers: IncomingHttpHeaders): readonly string[] {
  const presented: string[] = []
  const own = headers['x-polar-control-token']
  if (typeof own === 'string') presented.push(own)
  const [, scheme, value] = /^\s*(Bearer|Basic)\s+(\S+)\s*$/i.exec(headers.authorization ?? '') ?? []
  if (scheme?.toLowerCase() === 'bearer' && value !== undefined) presented.push(value)
  if (scheme?.toLowerCase() === 'basic' && value !== undefined) {
    const pair = Buffer.from(value, 'base64').toString()
    const colon = pair.indexOf(':')
    if (colon !== -1) presented.push(pair.slice(colon + 1))
  }
  return presented
}

/** Digests have equal length, so the time of the comparison says nothing about the token. */
function isSame(presented: string, token: string): boolean {
  return timingSafeEqual(createHash('sha256').update(presented).digest(), createHash('sha256').update(token).digest())
}

function isExisting(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EEXIST'
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
