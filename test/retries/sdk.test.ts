// The vendors' own SDKs on connections that break: whatever is lost where, one answer of a turn is trained, and it is the one they went on with.
import { describe, expect, it } from 'vitest'
import type { CallRecord } from '../../src/contract/call.ts'
import type { ScriptInput } from '../../src/engine/scripted/script.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import type { BoundarySettings } from '../../src/proxy/settings.ts'
import type { Driver, Endpoint, Wish } from '../sdk/drivers/driver.ts'
import { describeEveryDialect } from '../sdk/every-dialect.ts'
import { type Gateway, openGateway, untilDuring } from '../sdk/gateway.ts'
import { type Ask, FORMS, type Form, HELD_MS, READ } from '../sdk/scenarios.ts'
import { type Loss, openRelay, type Relay } from './relay.ts'
import { accountOf } from './trained.ts'

/** The engine's time stands still for who asks like this. */
const HELD = 'Look, and take your time.'
/** The SDK's own clock runs: a busy machine must not use it up. */
const IMPATIENT_MS = 1_000
const MOST_TRIES = 4

/** The text with which an answer begins tells which generation it is. */
const SCRIPT: ScriptInput = {
  rules: [
    {
      match: { turn: 1, first_user_contains: HELD },
      choices: [{ text: 'Looking.', tool_calls: [call('a.txt')], latency: { ttft_ms: HELD_MS } }],
    },
    { match: { turn: 1 }, choices: [answer('One look.', 'a.txt'), answer('Another look.', 'b.txt')] },
    { match: { turn: 2 }, choices: [{ text: 'It is empty.' }] },
  ],
}

function call(path: string) {
  return { name: 'read_file', arguments: { path } }
}
function answer(text: string, path: string) {
  return { variant: text, text, tool_calls: [call(path)] }
}

const ask = (text: string): Ask => ({ system: 'You are terse.', text, image: null, tools: [READ], thinks: false, maxTokens: 512 })

/** The last event of a stream, as it is written in each dialect. */
const TERMINAL = {
  'openai-chat': /\[DONE\]/,
  'openai-responses': /response\.completed/,
  anthropic: /message_stop/,
  google: /finishReason/,
} as const

/** Lost when the node has sent all of it: only the client's asking again tells that it was lost. */
const SENT: readonly { readonly name: string; readonly forms: readonly Form[]; readonly loss: Loss }[] = [
  { name: 'reset before its head', forms: FORMS, loss: { type: 'before the head' } },
  { name: 'lost on its way', forms: FORMS, loss: { type: 'on the way', instead: null } },
  { name: 'cut in the middle', forms: ['stream'], loss: { type: 'after an event', holding: / look/ } },
]

describe.each(['synthetic', 'live'] as const)('with streaming %s,', (streamMode) => {
  describeEveryDialect((driver) => {
    for (const { name, forms, loss } of SENT) {
      it.concurrent.for(forms)(
        `an answer that is ${name} is generated anew, and only the new one is trained, %s`,
        async (form, { onTestFinished }) => {
          const { opened, endpoint, relay } = await openRelayed(onTestFinished, { streamMode })
          relay.lose(loss)
          const asked = await askUntilAnswered(driver, endpoint, 'Look.', form)
          expect(relay.isLost()).toBe(true)
          await driver.send(endpoint, asked.next, { form })
          const sealed = await opened.door.seal()
          const [first, second] = sealed.calls
          expect(sealed.calls.map(({ retryOf }) => retryOf)).toEqual([null, first?.id, null])
          expect(said(sealed, second)).toBe(asked.answer.text)
          expect(accountOf(sealed)).toEqual({ trained: [1, 2], untrained: [[0, 'retry_abandoned']] })
          expect(opened.reports).toEqual([])
        },
      )
    }

    it.concurrent.for(FORMS)(
      'a call that loses its connection while the engine works is found again by the SDK, %s',
      async (form, { onTestFinished }) => {
        const { opened, endpoint, relay } = await openRelayed(onTestFinished, { streamMode })
        const asking = askUntilAnswered(driver, endpoint, HELD, form)
        await untilDuring(asking, () => opened.asked().length > 0)
        relay.cut(null)
        await untilDuring(asking, () => opened.arrivals() > 1)
        await opened.release()
        const asked = await asking
        await driver.send(endpoint, asked.next, { form })
        await expectOneGenerationPerTurn(opened)
      },
    )

    it.concurrent.for(FORMS)(
      'a call that outlasts the SDK’s patience is found again by its own repeat, %s',
      async (form, { onTestFinished }) => {
        const { opened, endpoint } = await openRelayed(onTestFinished, { streamMode, commitAfterMs: 60_000 })
        const asking = askUntilAnswered(driver, endpoint, HELD, form, { retries: 5, timeoutMs: IMPATIENT_MS })
        // What the engine has not been asked yet would wait for a time that has passed.
        await untilDuring(asking, () => opened.arrivals() > 1 && opened.asked().length > 0)
        await opened.release()
        const asked = await asking
        await driver.send(endpoint, asked.next, { form })
        await expectOneGenerationPerTurn(opened)
      },
    )

    it.concurrent('a stream that is cut after its last event leaves one trained answer, whether the SDK minds or not', async ({
      onTestFinished,
    }) => {
      const { opened, endpoint, relay } = await openRelayed(onTestFinished, { streamMode })
      relay.lose({ type: 'after an event', holding: TERMINAL[driver.dialect] })
      const asked = await askUntilAnswered(driver, endpoint, 'Look.', 'stream')
      expect(relay.isLost()).toBe(true)
      await driver.send(endpoint, asked.next, { form: 'stream' })
      const sealed = await opened.door.seal()
      const gone = sealed.calls.find((call) => said(sealed, call) === asked.answer.text)
      expect(accountOf(sealed).trained).toEqual([gone?.sequence, sealed.calls.length - 1])
    })

    it.concurrent.for(FORMS)(
      'a failure that lasts is asked for three times and no more, and a refusal once, %s',
      async (form, { onTestFinished }) => {
        const { opened, endpoint } = await openRelayed(onTestFinished, { streamMode })
        const failing = async (fault: 'http-500' | 'http-400'): Promise<number> => {
          opened.engine.setFault(null)
          opened.engine.setFault({ fault })
          const before = opened.arrivals()
          const error = await driver
            .send(endpoint, driver.begin(ask(`Look, ${fault}.`)), { form, retries: 10 })
            .catch((thrown: unknown) => thrown)
          expect(driver.isStatusError(error, 400), String(error)).toBe(true)
          return opened.arrivals() - before
        }
        expect(await failing('http-500')).toBe(3)
        expect(await failing('http-400')).toBe(1)
        opened.engine.setFault(null)
        const { trained } = accountOf(await opened.door.seal())
        expect(trained).toEqual([])
      },
    )

    it.concurrent('a failure that is over at the second repeat costs a client of two repeats nothing', async ({ onTestFinished }) => {
      const { opened, endpoint } = await openRelayed(onTestFinished, { streamMode })
      opened.engine.setFault({ fault: 'http-500', times: 2 })
      const { answer } = await driver.send(endpoint, driver.begin(ask('Look.')), { form: 'stream', retries: 2 })
      expect(answer.text).toContain('look.')
      expect(accountOf(await opened.door.seal())).toEqual({
        trained: [2],
        untrained: [
          [0, 'failed'],
          [1, 'failed'],
        ],
      })
    })

    it.concurrent('two open connections that ask the same are two turns, of which each is trained that is gone on with', async ({
      onTestFinished,
    }) => {
      const { opened, endpoint } = await openRelayed(onTestFinished, { streamMode })
      const both = [askUntilAnswered(driver, endpoint, HELD, 'stream'), askUntilAnswered(driver, endpoint, HELD, 'plain')] as const
      await untilDuring(Promise.race(both), () => opened.asked().length > 1)
      await opened.release()
      const [one] = await Promise.all(both)
      await driver.send(endpoint, one.next, { form: 'stream' })
      const sealed = await opened.door.seal()
      expect(sealed.calls.map(({ status, delivery }) => [status, delivery])).toEqual(Array(3).fill(['ok', 'yes']))
      const { trained, untrained } = accountOf(sealed)
      expect(trained).toHaveLength(2)
      expect(untrained.map(([, reason]) => reason)).toEqual(['retry_abandoned'])
    })
  })
})

type Opened = { readonly opened: Gateway; readonly relay: Relay; readonly endpoint: Endpoint }

async function openRelayed(onTestFinished: (close: () => Promise<void>) => void, settings: Partial<BoundarySettings>): Promise<Opened> {
  const opened = await openGateway({ script: SCRIPT, settings })
  const relay = await openRelay(Number(new URL(opened.endpoint.origin).port))
  onTestFinished(async () => {
    await relay.close()
    await opened.close()
  })
  return { opened, relay, endpoint: { ...opened.endpoint, origin: `http://127.0.0.1:${relay.port}` } }
}

/** What an agent does whose SDK has given up: it asks the same once more. */
async function askUntilAnswered<History>(
  driver: Driver<History>,
  endpoint: Endpoint,
  text: string,
  form: Form,
  wish: Pick<Wish, 'retries' | 'timeoutMs'> = { retries: 2 },
) {
  const begun = driver.begin(ask(text))
  for (let tries = 1; ; tries += 1) {
    try {
      const { answer, history } = await driver.send(endpoint, begun, { form, ...wish })
      const results = answer.calls.map((made) => ({ call: made, output: 'nothing' }))
      return { answer, next: driver.withResults(history, results) }
    } catch (error) {
      if (tries === MOST_TRIES) throw error
    }
  }
}

async function expectOneGenerationPerTurn(opened: Gateway): Promise<void> {
  expect(opened.asked()).toHaveLength(2)
  const sealed = await opened.door.seal()
  expect(sealed.calls).toMatchObject([
    { status: 'ok', delivery: 'yes', retryOf: null },
    { status: 'ok', delivery: 'yes', retryOf: null },
  ])
  expect(accountOf(sealed)).toEqual({ trained: [0, 1], untrained: [] })
}

/** The text of a call's answer, as the session keeps it. */
function said({ messages }: SealedCalls, call: CallRecord | undefined): unknown {
  return call?.responseMessage == null ? null : JSON.parse(messages[call.responseMessage] ?? 'null').content
}
