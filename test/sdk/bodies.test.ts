// Compressed request bodies as SDKs and proxies send them: undone in all dialects, refused in the caller's terms, bounded in size (TI-07).
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import type { Driver, Endpoint } from './drivers/driver.ts'
import { describeEveryDialect } from './every-dialect.ts'
import { expectExactTokens, openGateway } from './gateway.ts'
import { FORMS, scenario } from './scenarios.ts'

type Pack = (bytes: Uint8Array) => Uint8Array

const PACKS: readonly { readonly coding: string; readonly pack: Pack }[] = [
  { coding: 'identity', pack: (bytes) => bytes },
  { coding: 'gzip', pack: gzipSync },
  { coding: 'deflate', pack: deflateSync },
  { coding: 'br', pack: brotliCompressSync },
  { coding: 'zstd', pack: zstdCompressSync },
]
const COMPRESSING = PACKS.filter(({ coding }) => coding !== 'identity')
const LIMIT_BYTES = 2 ** 20
const BOMB_BYTES = 128 * 2 ** 20
/** Kilobytes each, made at the least effort: all dialects are sent the same. */
const BOMBS: { readonly [coding: string]: (zeros: Uint8Array) => Uint8Array } = {
  gzip: (zeros) => gzipSync(zeros, { level: 1 }),
  deflate: (zeros) => deflateSync(zeros, { level: 1 }),
  br: (zeros) => brotliCompressSync(zeros, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  zstd: zstdCompressSync,
}
const bombs = new Map<string, Uint8Array>()

function bombOf(coding: string): Uint8Array {
  const known = bombs.get(coding) ?? BOMBS[coding]?.(Buffer.alloc(BOMB_BYTES))
  if (known === undefined) throw new Error(`no bomb in ${coding}`)
  bombs.set(coding, known)
  return known
}

/** The SDK's fetch, with the body packed on its way out. */
function packed(endpoint: Endpoint, coding: string, pack: Pack): Endpoint {
  return {
    ...endpoint,
    fetch: (input, init) => {
      if (typeof init?.body !== 'string') throw new Error('the SDK sent a body that is no text')
      const headers = new Headers(init.headers)
      headers.set('content-encoding', coding)
      // A view of its own, because a Buffer may lie in a shared pool.
      return endpoint.fetch(input, { ...init, headers, body: Uint8Array.from(pack(Buffer.from(init.body))) })
    },
  }
}

async function refusal<History>(driver: Driver<History>, endpoint: Endpoint): Promise<unknown> {
  const sent = await driver.send(endpoint, driver.begin(scenario('tools').ask), { form: 'stream' }).catch((error: unknown) => error)
  return sent
}

describeEveryDialect((driver) => {
  const stacked = [
    ...PACKS,
    { coding: 'gzip, zstd', pack: (bytes: Uint8Array) => zstdCompressSync(gzipSync(bytes)) },
    { coding: 'ZSTD', pack: zstdCompressSync },
  ]
  it.for(FORMS.flatMap((form) => stacked.map((each) => ({ ...each, form }))))(
    'TI-07 undoes $coding, $form',
    async ({ coding, pack, form }, { onTestFinished }) => {
      const opened = await openGateway()
      onTestFinished(opened.close)
      const { ask, first } = scenario('tools')
      const { answer } = await driver.send(packed(opened.endpoint, coding, pack), driver.begin(ask), { form })
      expect(answer.calls.map((call) => [call.name, call.arguments])).toEqual(first.calls.map((call) => [call.name, call.arguments]))
      // The same body unpacked is the same prompt.
      await driver.send(opened.endpoint, driver.begin(ask), { form })
      const [given, plain] = opened.asked()
      expect(given?.body).toEqual(plain?.body)
      expect((await expectExactTokens(opened)).calls.map((call) => call.status)).toEqual(['ok', 'ok'])
    },
  )

  it.for(COMPRESSING)('TI-07 refuses a bomb in $coding with 413, in bounded memory', async ({ coding }, { onTestFinished }) => {
    const opened = await openGateway({ settings: { maxBodyBytes: LIMIT_BYTES } })
    onTestFinished(opened.close)
    const bomb = bombOf(coding)
    expect(bomb.byteLength).toBeLessThan(LIMIT_BYTES)
    const peakBefore = process.resourceUsage().maxRSS
    const error = await refusal(
      driver,
      packed(opened.endpoint, coding, () => bomb),
    )
    expectRefused(driver, error, 413)
    expect((process.resourceUsage().maxRSS - peakBefore) * 1_024).toBeLessThan(BOMB_BYTES / 2)
    expect(opened.asked()).toEqual([])
  })

  it.for(COMPRESSING)('TI-07 refuses a truncated $coding frame with 400', async ({ coding, pack }, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const truncating: Pack = (bytes) => {
      const whole = pack(bytes)
      return whole.subarray(0, Math.floor(whole.byteLength / 2))
    }
    expectRefused(driver, await refusal(driver, packed(opened.endpoint, coding, truncating)), 400)
    expect(opened.asked()).toEqual([])
  })

  it.for(COMPRESSING)('TI-07 refuses plain JSON that calls itself $coding with 400', async ({ coding }, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    expectRefused(
      driver,
      await refusal(
        driver,
        packed(opened.endpoint, coding, (bytes) => bytes),
      ),
      400,
    )
  })

  it.for(['snappy', 'gzip, snappy', 'gzip, gzip, gzip, gzip, gzip'])(
    'TI-07 refuses the coding %s with 415',
    async (coding, { onTestFinished }) => {
      const opened = await openGateway()
      onTestFinished(opened.close)
      expectRefused(driver, await refusal(driver, packed(opened.endpoint, coding, gzipSync)), 415)
      expect((await opened.door.seal()).calls).toEqual([])
    },
  )

  it('refuses a body over the limit with 413', async ({ onTestFinished }) => {
    const opened = await openGateway({ settings: { maxBodyBytes: 1_000 }, maxBodyBytes: 1_000 })
    onTestFinished(opened.close)
    const { ask } = scenario('text')
    const error = await driver
      .send(opened.endpoint, driver.begin({ ...ask, text: 'x'.repeat(100_000) }), { form: 'plain' })
      .catch((thrown: unknown) => thrown)
    expectRefused(driver, error, 413)
  })
})

function expectRefused<History>(driver: Driver<History>, error: unknown, status: 400 | 413 | 415): void {
  expect(driver.isStatusError(error, status), String(error)).toBe(true)
  expect(driver.errorWord(error)).toBe(driver.errorWords[status])
}
