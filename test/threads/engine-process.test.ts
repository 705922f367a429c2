// The embedded engine in its process: it answers, it comes back on its port when it dies, and it does not start in silence when it cannot.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openEventLoop } from '../../src/kernel/event-loop.ts'
import type { RestartLimit } from '../../src/kernel/restart-budget.ts'
import { type EngineProcess, type EngineSetup, openEngine } from '../../src/threads/engine.ts'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

let model: TinyModel
let engine: EngineProcess | null = null
const log: string[] = []

beforeAll(() => {
  model = writeTinyModel()
})
afterAll(() => model.remove())
afterEach(async () => {
  await engine?.close()
  engine = null
  log.length = 0
})

const open = (changes: Partial<EngineSetup> = {}, restarts?: RestartLimit) =>
  openEngine(
    { modelPath: model.path, servedAs: null, sequences: 2, threads: 1, maxModelLen: 1_024, ...changes },
    {
      scheduler: openEventLoop(),
      log: (event, detail) => log.push(`${event} ${JSON.stringify(detail)}`),
      ...(restarts === undefined ? {} : { restarts }),
    },
  )

async function running(changes: Partial<EngineSetup> = {}, restarts?: RestartLimit): Promise<EngineProcess> {
  const opened = await open(changes, restarts)
  if (!opened.ok) throw new Error(opened.error)
  engine = opened.engine
  return opened.engine
}

/** The name of an answer of one token at least; null when there is no engine. */
async function answered(url: string): Promise<string | null> {
  const body = { messages: [{ role: 'user', content: 'hello' }], max_tokens: 8, return_token_ids: true }
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).catch(() => null)
  if (response?.ok !== true) return null
  const { id, choices } = (await response.json()) as {
    readonly id: string
    readonly choices: readonly { readonly token_ids: readonly number[] }[]
  }
  return choices[0]?.token_ids.length ? id : null
}

describe('the embedded engine', { timeout: 60_000 }, () => {
  it('serves the file it was given under its own name, and says how large it is', async () => {
    const { url, model: name, parameters } = await running()
    expect(name).toBe('noise')
    expect(parameters).toBeGreaterThan(10_000)
    expect(await answered(url)).not.toBeNull()
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as {
      readonly data: readonly { readonly id: string; readonly max_model_len: number }[]
    }
    expect(data).toMatchObject([{ id: 'noise', max_model_len: 1_024 }])
  })

  it('serves it under another name when one is given', async () => {
    expect((await running({ servedAs: 'policy' })).model).toBe('policy')
  })

  it('comes back on its port when its process dies, as often as the budget has it', async () => {
    const { url, inject, failed } = await running({}, { max: 1, withinMs: 600_000 })
    const before = await answered(url)
    await inject('crash')
    let after: string | null = null
    await expect.poll(async () => (after = await answered(url)), { timeout: 60_000 }).not.toBeNull()
    // The ids of its tool calls are made alike: two in one conversation would not be told apart.
    expect(after).not.toBe(before)
    expect(log).toEqual(['engine-lost {"error":"ended by SIGSEGV"}', `engine-back {"url":"${url}"}`])
    await inject('crash')
    expect(await failed).toBe('the embedded engine is lost: it died too often, at last with: ended by SIGSEGV')
    expect(await answered(url)).toBeNull()
  }, 90_000)

  it('is gone when it was drained and closed, both as often as one likes, and is not lost by that', async () => {
    const { url, drain, close } = await running()
    await Promise.all([drain(), drain()])
    expect(await answered(url)).toBeNull()
    await Promise.all([close(), close()])
    expect(log).toEqual([])
  })

  it('has nothing to drain when it is dead', async () => {
    const { inject, drain } = await running({}, { max: 0, withinMs: 1 })
    await inject('crash')
    await expect(drain()).resolves.toBeUndefined()
  })

  it.each([
    ['is not there', 'nowhere.gguf', null],
    ['is no model', 'text.gguf', 'not a model'],
    ['is cut off', 'cut.gguf', 'GGUF\u0003'],
  ])('does not start from a file that %s, and names it', async (_, name, content) => {
    const path = join(model.folder, name)
    if (content !== null) writeFileSync(path, content)
    expect(await open({ modelPath: path })).toEqual({ ok: false, error: expect.stringContaining(path) })
    expect(log).toEqual([])
  })
})
