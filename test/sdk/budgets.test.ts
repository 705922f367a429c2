// The end of a session's budget through the vendors' own SDKs: an answer like any other, and in the end a refusal that none repeats.
import { expect, it } from 'vitest'
import { UNLIMITED } from '../../src/contract/session-budget.ts'
import { describeEveryDialect } from './every-dialect.ts'
import { openGateway } from './gateway.ts'
import { FORMS, followUp, scenario } from './scenarios.ts'

describeEveryDialect((driver) => {
  it.for(FORMS)('tells it as the last answer of the model, and then refuses once, %s', async (form, { onTestFinished }) => {
    const opened = await openGateway()
    onTestFinished(opened.close)
    const door = opened.openDoor({ limits: { ...UNLIMITED, calls: 1 } })
    const endpoint = { ...opened.endpoint, basePath: door.basePath, key: door.key }
    const { ask, first } = scenario('text')
    const turn = await driver.send(endpoint, driver.begin(ask), { form })
    expect(turn.answer.text).toBe(first.text)

    const history = driver.withUser(turn.history, followUp)
    const { answer } = await driver.send(endpoint, history, { form })
    expect(answer).toMatchObject({
      text: "I have to stop here: the session's budget of 1 model call is used up.",
      reasoning: '',
      calls: [],
      finish: driver.finishes.stop,
      usage: { input: 0, output: 0 },
    })

    for (let times = 1; times < 16; times += 1) await driver.send(endpoint, history, { form })
    const before = opened.responses.length
    const error = await driver.send(endpoint, history, { form, retries: 2 }).catch((thrown: unknown) => thrown)
    expect(driver.isStatusError(error, 400), String(error)).toBe(true)
    expect(opened.responses.length - before).toBe(1)

    expect(opened.asked()).toHaveLength(1)
    expect((await door.seal()).calls).toMatchObject([{ status: 'ok' }])
    expect(opened.reports).toEqual([])
  })
})
