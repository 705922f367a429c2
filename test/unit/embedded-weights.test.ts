// Replacing weights: one load after another, nothing left open, and only for who is on this host.
import { describe, expect, it } from 'vitest'
import type { LoadResult, ModelFile } from '../../src/engine/embedded/model.ts'
import { weightRoutes } from '../../src/engine/embedded/weight-routes.ts'
import { openWeightDesk } from '../../src/engine/embedded/weights.ts'
import { openBatch } from '../../src/engine/serve/batch.ts'
import type { Route, RouteInput } from '../../src/engine/serve/route.ts'
import { openByteVocabulary, openScriptedModel } from '../lib/scripted-model.ts'

const model = () => openScriptedModel(openByteVocabulary(), [])
const FILE = { contextTokens: 512, sequences: 2, threads: 3 }

function open(contextTokens: number | null = FILE.contextTokens) {
  const files: (ModelFile & { readonly settle: (result: LoadResult) => void })[] = []
  const batch = openBatch({ running: 1, waiting: 1 })
  const read = (file: ModelFile) => new Promise<LoadResult>((settle) => files.push({ ...file, settle }))
  return { files, batch, desk: openWeightDesk(read, { ...FILE, contextTokens }, batch) }
}
const turns = () => new Promise((resolve) => setImmediate(resolve))

describe('loading weights', () => {
  it('reads each file as the engine was told to, one after another', async () => {
    const { desk, files } = open()
    const loads = [desk.load('a.gguf', 'v1', 'wait'), desk.load('b.gguf', 'v2', 'wait')]
    await turns()
    expect(files).toMatchObject([{ path: 'a.gguf', ...FILE }])
    const [a, b] = [model(), model()]
    files[0]!.settle({ ok: true, model: a })
    await loads[0]
    await turns()
    expect([desk.current(), files[1]!.path]).toEqual([{ model: a, version: 'v1' }, 'b.gguf'])
    files[1]!.settle({ ok: true, model: b })
    expect(await loads[1]).toEqual({ ok: true, version: 'v2' })
    expect([desk.current(), a.isClosed(), b.isClosed()]).toEqual([{ model: b, version: 'v2' }, true, false])
  })

  it('gives new weights the context of those before them, for which there was more room', async () => {
    const { desk, files } = open(null)
    const loads = [desk.load('a.gguf', null, 'wait'), desk.load('b.gguf', null, 'wait')]
    await turns()
    files[0]!.settle({ ok: true, model: model() })
    await loads[0]
    await turns()
    expect(files.map(({ contextTokens }) => contextTokens)).toEqual([null, model().facts.contextTokens])
    files[1]!.settle({ ok: true, model: model() })
    await loads[1]
  })

  it('goes on after a file that could not be read, or broke the reader', async () => {
    const { desk, files } = open()
    const [bad, good] = [desk.load('a.gguf', null, 'wait'), desk.load('b.gguf', null, 'wait')]
    await turns()
    files[0]!.settle({ ok: false, error: 'is no GGUF file' })
    expect(await bad).toEqual({ ok: false, error: 'is no GGUF file' })
    await turns()
    files[1]!.settle({ ok: true, model: model() })
    expect(await good).toMatchObject({ ok: true })
  })

  it('leaves nothing open when the engine is closed meanwhile', async () => {
    const { desk, files } = open()
    const load = desk.load('a.gguf', null, 'wait')
    await turns()
    const closed = desk.close()
    const late = model()
    files[0]!.settle({ ok: true, model: late })
    expect([await load, await closed, late.isClosed(), desk.current()]).toEqual([
      { ok: false, error: 'the engine has been closed' },
      undefined,
      true,
      null,
    ])
  })

  it('reads no more files once the engine is closed', async () => {
    const { desk, files } = open()
    const loads = [desk.load('a.gguf', null, 'wait'), desk.load('b.gguf', null, 'wait')]
    await turns()
    const closed = desk.close()
    files[0]!.settle({ ok: true, model: model() })
    await closed
    loads.push(desk.load('c.gguf', null, 'wait'))
    expect(await Promise.all(loads)).toEqual(Array(3).fill({ ok: false, error: 'the engine has been closed' }))
    expect(files.length).toBe(1)
  })
})

describe('new weights over HTTP', () => {
  it('are loaded for callers on this host only', async () => {
    const { desk, files } = open()
    const route: Route | undefined = weightRoutes(desk)['POST /update_weights_from_disk']
    // The route looks at nothing else.
    const input = { body: { model_path: 'a.gguf' }, isLoopback: false } as unknown as RouteInput
    expect(await route?.(input)).toEqual({ status: 403, json: { error: 'weights can be loaded from this host only' } })
    await turns()
    expect(files).toEqual([])
  })
})
