// What reading one session costs its gateway: sessions are polled, and a gateway holds many.
import { expect, it, vi } from 'vitest'
import { openControl, task } from './control-world.ts'

it('a session that runs is read without all that its gateway holds', async () => {
  let snapshots = 0
  const control = await openControl({
    async readGateway() {
      snapshots += 1
      return null
    },
  })
  try {
    control.startGateway(1)
    await control.call('POST', '/rollout/task/submit', task('t'))
    await vi.waitUntil(() => control.held.size === 1, { timeout: 20_000 })
    const [session] = control.held.keys()
    expect((await control.call('GET', `/sessions/${session}`)).body).toMatchObject({ session_id: session, completion_count: 7 })
    expect(snapshots).toBe(0)
  } finally {
    await control.close()
  }
})
