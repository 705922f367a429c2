// What a turn can come to beside the matrix: thoughts alone, a cut length, a full context, a failure after the head, a client that comes back.
import { expect, it } from 'vitest'
import { describeEveryDialect } from './every-dialect.ts'
import { expectExactTokens, generations, openGateway, until, untilDuring } from './gateway.ts'
import { FORMS, followUp, scenario } from './scenarios.ts'

describeEveryDialect((driver) => {
  it.for(FORMS)('gives the engine its own thoughts back, letter by letter, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { ask, first } = scenario('musing')
    const { answer, history } = await driver.send(opened.endpoint, driver.begin(ask), { form })
    expect([answer.text, answer.reasoning]).toEqual([first.text, first.reasoning])
    await driver.send(opened.endpoint, driver.withUser(history, followUp), { form })
    const body = opened.asked().at(-1)?.body as { readonly messages: readonly unknown[] }
    expect(body.messages.slice(0, 4)).toEqual([
      { role: 'system', content: ask.system },
      { role: 'user', content: ask.text },
      { role: 'assistant', content: first.text, reasoning_content: first.reasoning },
      { role: 'user', content: followUp },
    ])
    const { calls } = await expectExactTokens(opened)
    expect(calls[1]?.promptMessages.slice(0, 3)).toEqual([...(calls[0]?.promptMessages ?? []), calls[0]?.responseMessage])
  })

  it.for(FORMS)('says that the length ended an answer, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const { ask } = scenario('text')
    const { answer } = await driver.send(opened.endpoint, driver.begin({ ...ask, maxTokens: 3 }), { form })
    expect(answer.finish).toBe(driver.finishes.length)
    expect(answer.usage.output).toBe(3)
    expect((await expectExactTokens(opened)).calls).toMatchObject([{ status: 'ok', finishReason: 'length', maxTokensRequested: 3 }])
  })

  it.for(FORMS)('refuses a conversation that is too long with 400, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ maxModelLen: 64 })
    onTestFinished(opened.close)
    const { ask } = scenario('text')
    const begun = driver.begin({ ...ask, text: 'one more word '.repeat(100) })
    const error = await driver.send(opened.endpoint, begun, { form, retries: 2 }).catch((thrown: unknown) => thrown)
    expect(driver.isStatusError(error, 400), String(error)).toBe(true)
    expect(driver.errorWord(error)).toBe(driver.errorWords[400])
    // Nothing was worth a repeat.
    expect(opened.responses.map(({ status }) => status)).toEqual([400])
    expect((await opened.door.seal()).calls).toMatchObject([{ status: 'failed', httpStatus: 400 }])
  })

  it('lets a failure be seen that comes after the head of a stream, and answers who asks again', async ({ onTestFinished }) => {
    const opened = await openGateway({ settings: { commitAfterMs: 10, beatEveryMs: 10, engineDeadlineMs: 1_000 } })
    onTestFinished(opened.close)
    opened.engine.setFault({ fault: 'hang', times: 1 })
    const { ask, first } = scenario('tools')
    const sent = await driver.send(opened.endpoint, driver.begin(ask), { form: 'stream' }).catch((thrown: unknown) => thrown)
    expect(opened.responses.map(({ status }) => status)).toEqual([200])
    expect(driver.isAbort(sent)).toBe(false)
    if (driver.lateFailure === 'thrown') expect(sent).toBeInstanceOf(Error)
    else expect(sent).toMatchObject({ answer: { text: '', calls: [], finish: expect.stringMatching(/^failed/) } })
    const { answer } = await driver.send(opened.endpoint, driver.begin(ask), { form: 'stream' })
    expect(answer.calls.map((call) => call.arguments)).toEqual(first.calls.map((call) => call.arguments))
    const { calls } = await opened.door.seal()
    expect(calls).toMatchObject([
      { status: 'failed', httpStatus: 504, responseMessage: null },
      { status: 'ok', retryOf: calls[0]?.id },
    ])
  })

  it.for(FORMS)('keeps a turn for the client that left and asks again, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway({ settings: { commitAfterMs: 10, beatEveryMs: 10 } })
    onTestFinished(opened.close)
    const { ask, first } = scenario('reasoning', 'held')
    const leaving = new AbortController()
    const begun = driver.begin(ask)
    const left = driver
      .send(opened.endpoint, begun, { form, signal: leaving.signal, onEvent: () => leaving.abort() })
      .catch((thrown: unknown) => thrown)
    await untilDuring(left, () => opened.asked().length > 0)
    if (form === 'plain') leaving.abort()
    expect(driver.isAbort(await left)).toBe(true)
    // The client knows of its leaving before the server does.
    await until(() => opened.departures() > 0)
    const again = driver.send(opened.endpoint, begun, { form })
    await untilDuring(again, () => opened.arrivals() > 1)
    await opened.release()
    const { answer } = await again
    expect([answer.text, answer.reasoning]).toEqual([first.text, first.reasoning])
    expect(generations(opened)).toHaveLength(1)
    expect((await expectExactTokens(opened)).calls).toMatchObject([{ status: 'ok', delivery: 'yes', retryOf: null }])
  })
})
