// The matrix of one dialect: every form, kind and fault, one test each, named by its coordinates.
import { describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import type { BoundarySettings } from '../../src/proxy/settings.ts'
import { pythonJsonOf } from '../../src/python-json.ts'
import type { Answer, Driver } from './drivers/driver.ts'
import {
  expectExactTokens,
  expectExtension,
  type Gateway,
  generations,
  lastMessages,
  messagesOf,
  openGateway,
  until,
  untilDuring,
} from './gateway.ts'
import {
  FAULTS,
  type Fault,
  FORMS,
  type Form,
  followUp,
  KINDS,
  type Kind,
  RED_PIXEL,
  type Said,
  type Scenario,
  scenario,
} from './scenarios.ts'

type Cell<History> = { readonly driver: Driver<History>; readonly form: Form; readonly kind: Kind }

/** So short that beats flow before a held answer. */
const BEATING = { commitAfterMs: 10, beatEveryMs: 10 }
const SETTINGS: { readonly [fault in Fault]: Partial<BoundarySettings> } = {
  ok: {},
  overload: {},
  'engine 500': {},
  // Whoever leaves is given up at once.
  'abort mid-stream': { ...BEATING, lingerMs: 20 },
  // An SDK takes the head of a stream for an answer: its patience must end before that.
  'client timeout + retry': { commitAfterMs: 60_000 },
}
/** One SDK also counts the time in which the repeat's answer comes: a busy machine must not use it up. */
const IMPATIENT_MS = 1_000

export function describeMatrix<History>(driver: Driver<History>): void {
  const cells = FAULTS.flatMap((fault) => FORMS.flatMap((form) => KINDS.map((kind) => ({ fault, form, kind }))))
  describe(driver.dialect, () => {
    // Each cell has a gateway of its own and mostly waits for the SDK's patience.
    it.concurrent.for(cells)('$form, $kind: $fault', async ({ fault, form, kind }, { onTestFinished }) => {
      const opened = await openGateway({ settings: SETTINGS[fault] })
      onTestFinished(opened.close)
      await RUN[fault]({ driver, form, kind }, opened)
    })
  })
}

/** The same while the engine samples: what the SDK makes of it, and what is captured, is no other. */
export function describeLive<History>(driver: Driver<History>): void {
  it.concurrent.for(KINDS.map((kind): Cell<History> => ({ driver, form: 'stream', kind })))(
    'live, $kind',
    async (cell, { onTestFinished }) => {
      const opened = await openGateway({ settings: { streamMode: 'live' } })
      onTestFinished(opened.close)
      await RUN.ok(cell, opened)
      expect(opened.asked().map(({ body }) => body)).toEqual(Array(2).fill(expect.objectContaining({ stream: true })))
    },
  )
}

const RUN: { readonly [fault in Fault]: <History>(cell: Cell<History>, opened: Gateway) => Promise<void> } = {
  async ok(cell, opened) {
    const { first, history } = await askFirst(cell, opened, scenario(cell.kind))
    await askSecond(cell, opened, scenario(cell.kind), first, history)
    const { calls, tokens } = await expectExactTokens(opened)
    expect(calls).toMatchObject([
      { status: 'ok', retryOf: null },
      { status: 'ok', retryOf: null },
    ])
    expect(calls.map((call) => [call.dialect, call.streamed])).toEqual(Array(2).fill([cell.driver.dialect, cell.form === 'stream']))
    // The second prompt is stored as what it adds to the first call.
    expect(tokens.calls[1]).toMatchObject({
      parent: 0,
      shared: (tokens.calls[0]?.promptLength ?? 0) + (tokens.calls[0]?.sampledLength ?? 0),
    })
  },

  async overload(cell, opened) {
    const { driver, form } = cell
    opened.engine.setFault({ fault: 'http-429', times: 1 })
    opened.engine.setFault({ fault: 'http-503', times: 1, after: 1 })
    const begun = driver.begin(scenario(cell.kind).ask)
    const refused = await driver.send(opened.endpoint, begun, { form }).catch((error: unknown) => error)
    expectStatusError(driver, refused, 429)
    expect(opened.responses.at(-1)?.headers.get('retry-after')).toBe('1')
    if (driver.showsHeaders) expect(driver.retryAfter(refused)).toBe('1')
    const { first, history } = await askFirst(cell, opened, scenario(cell.kind), 2)
    expect(opened.responses.map(({ status }) => status)).toEqual([429, 503, 200])
    await askSecond(cell, opened, scenario(cell.kind), first, history)
    const { calls } = await expectExactTokens(opened)
    expect(calls).toMatchObject([
      { status: 'failed', httpStatus: 429, retryOf: null, responseMessage: null },
      { status: 'failed', httpStatus: 503, retryOf: calls[0]?.id, responseMessage: null },
      { status: 'ok', retryOf: calls[1]?.id },
      { status: 'ok', retryOf: null },
    ])
  },

  async 'engine 500'(cell, opened) {
    const { driver, form } = cell
    opened.engine.setFault({ fault: 'http-500', times: 2 })
    const refused = await driver.send(opened.endpoint, driver.begin(scenario(cell.kind).ask), { form }).catch((error: unknown) => error)
    expectStatusError(driver, refused, 500)
    expect(generations(opened)).toEqual([])
    // The SDK's own repeats get over the second one.
    const { first, history } = await askFirst(cell, opened, scenario(cell.kind), 1)
    await askSecond(cell, opened, scenario(cell.kind), first, history)
    const { calls, tokens } = await expectExactTokens(opened)
    expect(calls).toMatchObject([
      { status: 'failed', httpStatus: 500, finishReason: null, responseMessage: null },
      { status: 'failed', httpStatus: 500, retryOf: calls[0]?.id },
      { status: 'ok', retryOf: calls[1]?.id },
      { status: 'ok' },
    ])
    expect(tokens.calls[0]).toMatchObject({ promptLength: 0, sampledLength: 0 })
  },

  async 'abort mid-stream'(cell, opened) {
    const { driver, form } = cell
    const held = scenario(cell.kind, 'held')
    const leaving = new AbortController()
    const begun = driver.begin(held.ask)
    const asking = driver
      .send(opened.endpoint, begun, { form, signal: leaving.signal, onEvent: () => leaving.abort() })
      .catch((error: unknown) => error)
    await untilDuring(asking, () => opened.asked().length > 0)
    // A stream is left at its first event; a plain call brings none.
    if (form === 'plain') leaving.abort()
    const left = await asking
    expect(driver.isAbort(left), String(left)).toBe(true)
    await until(() => opened.asked()[0]?.cancelled === true && opened.records.length > 0)
    expect(opened.records).toMatchObject([{ status: 'cancelled', finishReason: null, responseMessage: null, usage: null }])
    expect(opened.records[0]?.delivery).not.toBe('yes')
    // What nobody waits for any more is asked for anew.
    const { first, history } = await askFirst(
      cell,
      opened,
      held,
      0,
      [opened.records[0]].filter((record) => record !== undefined),
    )
    await askSecond(cell, opened, held, first, history)
    const { calls, tokens } = await expectExactTokens(opened)
    expect(calls).toMatchObject([{ status: 'cancelled' }, { status: 'ok', retryOf: calls[0]?.id }, { status: 'ok' }])
    expect(tokens.calls[0]).toMatchObject({ sampledLength: 0 })
  },

  async 'client timeout + retry'(cell, opened) {
    const held = scenario(cell.kind, 'held')
    const { first, history } = await askImpatiently(cell, opened, held)
    await askSecond(cell, opened, held, first, history)
    const { calls } = await expectExactTokens(opened)
    expect(calls).toMatchObject([
      { status: 'ok', delivery: 'yes', retryOf: null },
      { status: 'ok', retryOf: null },
    ])
  },
}

type Asked<History> = { readonly first: Answer; readonly history: History }

async function askFirst<History>(
  { driver, form, kind }: Cell<History>,
  opened: Gateway,
  { ask, first }: Scenario,
  retries = 0,
  before: readonly CallRecord[] = [],
): Promise<Asked<History>> {
  const known = generations(opened).length
  const sending = driver.send(opened.endpoint, driver.begin(ask), { form, retries })
  if (before.length > 0) {
    await untilDuring(sending, () => opened.asked().length > before.length)
    await opened.release()
  }
  const { answer, history } = await sending
  expectSaid(driver, form, answer, first)
  expectOneGeneration(opened, known, answer)
  if (kind === 'image') expectImage(opened)
  return { first: answer, history }
}

/** The SDK gives up by its own clock and asks again by itself; only then the engine's time passes. */
async function askImpatiently<History>(
  { driver, form, kind }: Cell<History>,
  opened: Gateway,
  { ask, first }: Scenario,
): Promise<Asked<History>> {
  const sending = driver.send(opened.endpoint, driver.begin(ask), { form, retries: 5, timeoutMs: IMPATIENT_MS })
  await untilDuring(sending, () => opened.arrivals() > 1 && opened.asked().length > 0)
  await opened.release()
  const { answer, history } = await sending
  expect(opened.arrivals()).toBeGreaterThan(1)
  expectSaid(driver, form, answer, first)
  expectOneGeneration(opened, 0, answer)
  if (kind === 'image') expectImage(opened)
  return { first: answer, history }
}

/** The agent goes on with the SDK's own objects, and the engine sees its own tokens again. */
async function askSecond<History>(
  { driver, form }: Cell<History>,
  opened: Gateway,
  { results, first: said, second }: Scenario,
  first: Answer,
  history: History,
): Promise<void> {
  const known = generations(opened).length
  const next =
    results.length === 0
      ? driver.withUser(history, followUp)
      : driver.withResults(
          history,
          first.calls.map((call, index) => ({ call, output: results[index] ?? '' })),
        )
  const { answer } = await driver.send(opened.endpoint, next, { form })
  expectSaid(driver, form, answer, second)
  expectOneGeneration(opened, known, answer)
  expectExtension(opened)
  const messages = lastMessages(opened)
  const calls = messages.flatMap((message) => message.tool_calls ?? [])
  expect(calls.map((call) => call.function.arguments)).toEqual(said.calls.map((call) => pythonJsonOf(call.arguments)))
  // Each result under the id that the engine itself gave its call.
  expect(messages.filter(({ role }) => role === 'tool')).toEqual(
    results.map((output, index) => ({ role: 'tool', tool_call_id: calls[index]?.id, content: driver.toolContent(output) })),
  )
}

function expectOneGeneration(opened: Gateway, known: number, { usage }: Answer): void {
  const since = generations(opened).slice(known)
  expect(since).toHaveLength(1)
  const [truth] = since
  expect(usage.input).toBe(truth?.promptIds.length)
  expect(usage.output).toBe(truth?.sampledIds.length)
  if (usage.total !== null) expect(usage.total).toBe((truth?.promptIds.length ?? 0) + (truth?.sampledIds.length ?? 0))
}

function expectSaid<History>(driver: Driver<History>, form: Form, answer: Answer, said: Said): void {
  expect(answer.text).toBe(said.text.normalize('NFC'))
  expect(answer.reasoning).toBe(said.reasoning)
  if (said.reasoning !== '' && driver.signsReasoning) expect(answer.signature).toMatch(/^[A-Za-z0-9+/]{16,}={0,2}$/)
  expect(answer.calls.map((call) => [call.name, call.arguments])).toEqual(said.calls.map((call) => [call.name, call.arguments]))
  for (const [index, { argumentText, id }] of answer.calls.entries()) {
    expect(id).not.toBe('')
    if (argumentText !== null) expect(argumentText).toBe(pythonJsonOf(said.calls[index]?.arguments))
    else expect([driver.dialect, form]).not.toContain('openai-chat')
  }
  expect(new Set(answer.calls.map(({ id }) => id)).size).toBe(answer.calls.length)
  expect(answer.finish).toBe(driver.finishes[said.calls.length === 0 ? 'stop' : 'tool_calls'])
}

function expectImage(opened: Gateway): void {
  expect(messagesOf(generations(opened)[0]).find(({ role }) => role === 'user')?.content).toEqual([
    { type: 'text', text: expect.any(String) },
    { type: 'image_url', image_url: expect.objectContaining({ url: `data:image/png;base64,${RED_PIXEL.base64}` }) },
  ])
}

function expectStatusError<History>(driver: Driver<History>, error: unknown, status: number): void {
  expect(driver.isStatusError(error, status), `not the SDK's error for ${status}: ${String(error)}`).toBe(true)
}
