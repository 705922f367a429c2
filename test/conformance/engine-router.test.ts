// The scripted SGLang router: whom it lists, whom it asks, and what is lost on the way.
import { afterEach, expect, it } from 'vitest'
import { openScriptedEngine } from '../../src/engine/scripted/engine.ts'
import { openScriptedRouter } from '../../src/engine/scripted/router.ts'

const closing: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

async function open() {
  const engines = await Promise.all(
    [0, 1].map(() => openScriptedEngine({ script: { rules: [{ choices: [{ text: 'Hi.' }] }] }, shape: 'sglang' })),
  )
  const urls = engines.map((engine) => engine.url)
  const router = await openScriptedRouter({ workers: urls })
  closing.push(...engines.map((engine) => engine.close), router.close)
  const get = async (path: string) => JSON.parse(await (await fetch(router.url + path)).text())
  const chat = (url = router.url) =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'hi' }],
        logprobs: true,
        return_token_ids: true,
        return_prompt_token_ids: true,
        return_meta_info: true,
      }),
    })
  return { engines, urls, router, get, chat }
}

it('lists its workers in the gateway’s form and in the older one', async () => {
  const { urls, get } = await open()
  const { workers, total, stats } = await get('/workers')
  expect([workers.map((worker: { url: string }) => worker.url), total, stats.regular_count]).toEqual([urls, 2, 2])
  expect(await get('/list_workers')).toEqual({ urls })
})

it('passes chats to its workers in turn and loses their token ids', async () => {
  const { engines, urls, router, chat } = await open()
  const [direct] = JSON.parse(await (await chat(urls[0])).text()).choices
  expect(direct).toMatchObject({ token_ids: expect.any(Array), meta_info: expect.any(Object) })
  const [routed] = JSON.parse(await (await chat()).text()).choices
  await chat()
  expect(routed.message.content).toBe('Hi.')
  expect([routed.token_ids, routed.prompt_token_ids, routed.meta_info]).toEqual([undefined, undefined, undefined])
  expect(routed.logprobs.content.length).toBeGreaterThan(0)
  expect(engines.map((engine) => engine.requests().length)).toEqual([2, 1])
  expect([...router.served().values()]).toEqual([1, 1])
})

it('serves what it is told to serve from then on', async () => {
  const { engines, urls, router, get, chat } = await open()
  router.setHealthy(urls[0]!, false)
  await chat()
  await chat()
  expect(engines.map((engine) => engine.requests().length)).toEqual([0, 2])
  expect((await get('/workers')).workers.map((worker: { is_healthy: boolean }) => worker.is_healthy)).toEqual([false, true])
  expect(await get('/list_workers')).toEqual({ urls: [urls[1]] })
  router.setWorkers([])
  expect([(await chat()).status, await get('/list_workers')]).toEqual([503, { urls: [] }])
})

it('lists the models of a worker and has nothing else', async () => {
  const { router, get } = await open()
  expect((await get('/v1/models')).data[0].id).toBe('qwen3-scripted')
  expect((await fetch(`${router.url}/tokenize`, { method: 'POST', body: '{}' })).status).toBe(404)
})
