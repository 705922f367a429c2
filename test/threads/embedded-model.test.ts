import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openModel } from '../../src/engine/embedded/llama.ts'
import type { LoadedModel } from '../../src/engine/embedded/model.ts'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

const FIXTURE = new URL('fixtures/embedded-model-worker.ts', import.meta.url)

let file: TinyModel
let own: LoadedModel
let ownIds: readonly number[] = []

beforeAll(async () => {
  file = writeTinyModel()
  const result = await openModel({ path: file.path, contextTokens: null, sequences: 2, threads: 1 })
  if (!result.ok) throw new Error(result.error)
  own = result.model
  ownIds = await drawHere()
})
afterAll(async () => {
  await own.close()
  file.remove()
})

async function drawHere(): Promise<readonly number[]> {
  const ids: number[] = []
  const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, seed: 5 }
  const order = { promptIds: [1, 2, 3, 4, 5], sampling, logprobMode: 'raw', alternatives: 0 } as const
  for await (const event of own.generate(order, new AbortController().signal)) {
    if (event.type === 'drawn' && ids.push(event.id) === 10) break
  }
  return ids
}

function start(closes: boolean): Worker {
  return new Worker(FIXTURE, { workerData: { path: file.path, closes } })
}

describe('a model on a worker thread', () => {
  it.each([
    ['closes it', true],
    ['leaves it open', false],
  ])('draws what one on this thread draws, and the thread that %s ends by itself', async (_, closes) => {
    const workers = [start(closes), start(closes)]
    const exits = workers.map((worker) => once(worker, 'exit'))
    const ids = await Promise.all(workers.map((worker) => once(worker, 'message')))
    expect(ids).toEqual([[ownIds], [ownIds]])
    expect(await Promise.all(exits)).toEqual([[0], [0]])
    expect(await drawHere()).toEqual(ownIds)
  })
})
