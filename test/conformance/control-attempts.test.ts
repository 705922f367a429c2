// What the control API says of a session that was attempted again.
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { GATEWAY, openControl, task } from './control-world.ts'

const MAX_ATTEMPTS = 2
const SOON = { interval: 1, timeout: 20_000 }

let control: Awaited<ReturnType<typeof openControl>>
beforeEach(async () => {
  control = await openControl({}, MAX_ATTEMPTS)
})
afterEach(async () => {
  await control.close()
  expect(control.reports).toEqual([])
})

it('shows of an earlier attempt where and how it failed, while the next one is under way and after it', async () => {
  control.startGateway(3)
  await control.call('POST', '/rollout/task/submit', task('t', { num_samples: 2 }))
  await vi.waitFor(() => expect(control.held.size).toBe(2), SOON)
  const [first, second] = [...control.held.keys()]
  await control.finish(first!, 'runtime_error')
  await vi.waitFor(() => expect(control.held.get(first!)?.attempt).toBe(2), SOON)
  const rows = async () => (await control.call('GET', '/tasks/t/sessions')).body.sessions
  const failed = { attempt: 1, node_id: GATEWAY, outcome: 'runtime_error', error: null }
  expect(await rows()).toMatchObject([
    { session_id: first, attempt: 2, outcome: null, earlier_attempts: [failed] },
    { session_id: second, attempt: 1, outcome: null, earlier_attempts: [] },
  ])
  await control.finish(first!, 'harness_error')
  await vi.waitFor(async () => expect(await rows()).toMatchObject([{ outcome: 'harness_error' }, { outcome: null }]), SOON)
  expect(await rows()).toMatchObject([{ attempt: 2, earlier_attempts: [failed] }, { earlier_attempts: [] }])
})
