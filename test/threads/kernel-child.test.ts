// Real child processes behind the admin plane of a thread: deaths that are seen, restarts that are bounded, and none that outlives its owner.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it } from 'vitest'
import { threadId } from '../../src/kernel/address.ts'
import { type Child, type ChildSpec, openChild } from '../../src/kernel/child.ts'
import { openEventLoop } from '../../src/kernel/event-loop.ts'
import { supervise } from '../../src/kernel/supervisor.ts'
import { moduleBeside } from '../../src/kernel/thread.ts'
import type { ChildBoot, ChildReady } from './fixtures/kernel-child.ts'

type Fixture = Child<ChildBoot, ChildReady>

const scheduler = openEventLoop()
const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0)) await close()
})

const fixture = (name: string): URL => moduleBeside(`./fixtures/${name}`, import.meta.url)
const SPEC: ChildSpec = { id: threadId('child'), url: fixture('kernel-child') }

function openFixture(more: Partial<ChildSpec> = {}): Fixture {
  const child: Fixture = openChild({ ...SPEC, ...more }, 1, scheduler)
  closers.push(() => child.terminate())
  return child
}

/** Also a process that ended and that nobody has asked for is no longer alive. */
function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

describe('a child process', () => {
  it('answers as a thread does, and keeps what it prints to itself', async () => {
    const child = openFixture()
    const booted = await child.boot({ fails: false })
    expect(booted).toEqual({ ok: true, value: { pid: child.pid, bytes: new Uint8Array([1, 2, 3]) } })
    const stats = await child.stats()
    expect(stats.ok && stats.value.rssBytes).toBeGreaterThan(1_000_000)
    expect(await child.drain()).toMatchObject({ ok: true, value: { isDrained: true } })
    expect(await child.stop()).toEqual({ ok: true, value: undefined })
    await child.terminate()
    expect(await child.exited).toMatchObject({ incarnation: 1, code: 137, error: { message: 'ended by SIGKILL' } })
    expect(await child.boot({ fails: false })).toMatchObject({ ok: false, error: 'exited' })
  })

  it('says why it does not boot', async () => {
    const child = openFixture()
    expect(await child.boot({ fails: true })).toEqual({ ok: false, error: 'failed', message: 'this boot was meant to fail' })
  })

  it.each([
    ['exit', 'process child exited with code 7'],
    ['crash', 'process child exited with code 139: ended by SIGSEGV'],
  ])('settles what waits for it when it dies of %s', async (fault, message) => {
    const child = openFixture()
    await child.boot({ fails: false })
    const answers = await Promise.all([child.inject(fault), child.stats()])
    expect(answers[0]).toEqual({ ok: false, error: 'exited', message })
    expect(await child.stop()).toEqual({ ok: false, error: 'exited', message })
  })

  it('is missed when its module cannot be loaded', async () => {
    const child = openFixture({ url: fixture('no-such-module') })
    expect(await child.boot({ fails: false })).toMatchObject({ ok: false, error: 'exited' })
    expect((await child.exited).code).toBe(1)
  })

  it('does not die of the signals that its owner is to act on, and is killed even when it is busy', async () => {
    const child = openFixture({ deadlinesMs: { inject: 50 } })
    await child.boot({ fails: false })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.kill(child.pid ?? 0, signal)
    expect(await child.stats()).toMatchObject({ ok: true })
    expect(await child.inject('busy')).toMatchObject({ ok: false, error: 'deadline' })
    await child.terminate()
    expect(isAlive(child.pid ?? 0)).toBe(false)
  })

  it('stands outside the group that a terminal signals, from its first moment on', () => {
    const { pid } = openFixture()
    // The group that the process leads; there is none when it belongs to another's.
    expect(process.kill(-(pid ?? 0), 0)).toBe(true)
  })

  it('ends with an owner that was killed', async () => {
    const owner = spawn(process.execPath, [fileURLToPath(fixture('child-owner'))], { stdio: ['ignore', 'pipe', 'inherit'] })
    closers.push(async () => owner.kill('SIGKILL'))
    const [line] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string]
    const pid = Number(line)
    closers.push(async () => void (isAlive(pid) && process.kill(pid, 'SIGKILL')))
    expect(isAlive(pid)).toBe(true)
    owner.kill('SIGKILL')
    await expect.poll(() => isAlive(pid), { timeout: 20_000 }).toBe(false)
  })

  it('is started again by its supervisor, until the budget is spent', async () => {
    const events: string[] = []
    const over = Promise.withResolvers<void>()
    const supervisor = supervise<Fixture>({
      id: SPEC.id,
      scheduler,
      open: (incarnation) => openChild(SPEC, incarnation, scheduler),
      async start(child) {
        const booted = await child.boot({ fails: false })
        if (!booted.ok) throw new Error(booted.message)
        void child.inject('crash')
      },
      onLost: ({ incarnation, code }) => events.push(`lost ${incarnation} code ${code}`),
      onPhase(phase) {
        if (phase === 'failed') over.resolve()
      },
      restarts: { max: 2, withinMs: 60_000 },
    })
    closers.push(() => supervisor.close())
    await over.promise
    expect(events).toEqual(['lost 1 code 139', 'lost 2 code 139', 'lost 3 code 139'])
  })
})
