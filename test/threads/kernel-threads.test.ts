// Real worker threads: messages and credits over real ports, deaths that are seen, restarts that are bounded.
import { afterEach, describe, expect, it } from 'vitest'
import { threadId } from '../../src/kernel/address.ts'
import { cryptoRandom, openEventLoop } from '../../src/kernel/event-loop.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import type { Lifecycle } from '../../src/kernel/lifecycle.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { type Supervisor, superviseThread } from '../../src/kernel/supervisor.ts'
import { joinKernel, joinThreads, moduleBeside, openThread, type Thread, type ThreadSpec } from '../../src/kernel/thread.ts'
import type { FixtureBoot, FixtureMessage, FixtureReady } from './fixtures/kernel-thread.ts'

type Fixture = Thread<FixtureBoot, FixtureReady>

const scheduler = openEventLoop()
const closers: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

function openMain(peers = 2): Kernel {
  const kernel = openKernel({ thread: threadId('main'), incarnation: 1, scheduler, random: cryptoRandom(), peers })
  closers.push(() => kernel.close())
  return kernel
}

/** A module that throws while it is loaded. */
const BROKEN_MODULE = new URL('data:text/javascript,throw new Error("this module cannot be loaded")')

const specOf = (name: string, more: Partial<ThreadSpec> = {}): ThreadSpec => ({
  id: threadId(name),
  url: moduleBeside('./fixtures/kernel-thread', import.meta.url),
  peers: 1,
  ...more,
})

function openFixture(name: string, more: Partial<ThreadSpec> = {}, incarnation = 1): Fixture {
  const thread: Fixture = openThread(specOf(name, more), incarnation, scheduler)
  closers.push(() => thread.terminate())
  return thread
}

async function bootOn(kernel: Kernel, thread: Fixture, capacity = 64) {
  expect(await joinKernel(kernel, thread)).toBe(true)
  const booted = await thread.boot({ capacity })
  if (!booted.ok) throw new Error(booted.message)
  return booted.value.actor
}

const echo =
  (payload: ArrayBuffer) =>
  (ask: Extract<FixtureMessage, { type: 'echo' }>['ask']): FixtureMessage => ({ type: 'echo', payload, ask })
const ignore = (ask: Extract<FixtureMessage, { type: 'ignore' }>['ask']): FixtureMessage => ({ type: 'ignore', ask })
const notes = (ask: Extract<FixtureMessage, { type: 'notes' }>['ask']): FixtureMessage => ({ type: 'notes', ask })

function openGate() {
  const gate = new SharedArrayBuffer(4)
  return {
    gate,
    open() {
      Atomics.store(new Int32Array(gate), 0, 1)
      Atomics.notify(new Int32Array(gate), 0)
    },
  }
}

describe('a worker thread', () => {
  it('answers an ask, and moves the buffers of question and answer instead of copying them', async () => {
    const main = openMain()
    const actor = await bootOn(main, openFixture('worker'))
    const payload = new Uint8Array([1, 2, 3]).buffer
    const answer = await main.ask(actor, echo(payload), 5000)
    expect(answer.ok && [...new Uint8Array(answer.value.payload)]).toEqual([1, 2, 3])
    expect(payload.detached).toBe(true)
  })

  it('takes its share and no more while it is blocked, then everything in order, then its share again', async () => {
    const main = openMain()
    const actor = await bootOn(main, openFixture('worker'), 64)
    const gate = openGate()
    expect(actor.share).toBe(32)
    expect(main.tell(actor, { type: 'block', gate: gate.gate })).toBe('accepted')
    let sent = 0
    while (main.tell(actor, { type: 'note', n: sent }) === 'accepted') sent++
    expect(sent).toBe(31)
    expect(await main.ask(actor, notes, 5000)).toEqual({ ok: false, error: 'full' })
    gate.open()
    let answer = await main.ask(actor, notes, 5000)
    while (!answer.ok && answer.error === 'full') {
      await new Promise((resolve) => setImmediate(resolve))
      answer = await main.ask(actor, notes, 5000)
    }
    expect(answer).toEqual({ ok: true, value: Array.from({ length: 31 }, (_, n) => n) })
  })

  it('reaches another worker without the main thread in between', async () => {
    const main = openMain()
    const [left, right] = [openFixture('left', { peers: 2 }), openFixture('right', { peers: 2 })]
    const [from, to] = [await bootOn(main, left), await bootOn(main, right)]
    expect(await joinThreads(left, right)).toBe(true)
    for (const n of [1, 2, 3]) main.tell(from, { type: 'relay', to, n })
    // The last relay is behind this question in the left thread, so its notes are ahead of the next one in the right thread's port.
    await main.ask(from, notes, 5000)
    let seen: readonly number[] = []
    while (seen.length < 3) {
      const answer = await main.ask(to, notes, 5000)
      if (!answer.ok) throw new Error(answer.error)
      seen = answer.value
    }
    expect(seen).toEqual([1, 2, 3])
  })

  it('shows its kernel, its heap and its own gauges', async () => {
    const thread = openFixture('worker')
    await thread.boot({ capacity: 8 })
    const stats = await thread.stats()
    expect(stats).toMatchObject({ ok: true, value: { kernel: { thread: 'worker', actors: 1 }, gauges: { answer: 42 } } })
    if (stats.ok) expect(stats.value.heapUsedBytes).toBeGreaterThan(1_000_000)
  })
})

describe('a thread that dies', () => {
  it.each([
    ['exit', 7, null],
    ['throw', 1, /thrown in the thread/],
    ['reject', 1, /rejected in the thread/],
    ['heap', 1, /memory/],
  ])('by %s is seen by its exit; every ask and every call that waited settles', async (fault, code, message) => {
    const main = openMain()
    const thread = openFixture('worker', { resourceLimits: { maxOldGenerationSizeMb: 24 }, deadlinesMs: { inject: 20_000 } })
    const actor = await bootOn(main, thread)
    const asks = [1, 2, 3].map(() => main.ask(actor, ignore, 60_000))
    const calls = [thread.inject(fault), thread.exited]
    const exit = await thread.exited
    expect(exit).toMatchObject({ thread: 'worker', incarnation: 1, code })
    if (message === null) expect(exit.error).toBeNull()
    else expect(exit.error?.message).toMatch(message)
    await Promise.all(calls)
    for (const ask of asks) expect(await ask).toEqual({ ok: false, error: 'stopped' })
    expect(main.tell(actor, { type: 'note', n: 1 })).toBe('stopped')
    expect(await thread.stats()).toMatchObject({ ok: false, error: 'exited' })
    expect(main.stats().pendingAsks).toBe(0)
  })

  it('in the middle of an endless loop leaves calls to their deadline, and is killed all the same', async () => {
    const main = openMain()
    const thread = openFixture('worker', { deadlinesMs: { stats: 50, inject: 50 } })
    const actor = await bootOn(main, thread)
    const ask = main.ask(actor, ignore, 60_000)
    expect(await thread.inject('busy')).toMatchObject({ ok: false, error: 'deadline' })
    expect(await thread.stats()).toMatchObject({ ok: false, error: 'deadline' })
    await thread.terminate()
    await thread.terminate()
    expect(await ask).toEqual({ ok: false, error: 'stopped' })
  })

  it('while its module is loaded says why', async () => {
    const thread = openFixture('worker', { url: BROKEN_MODULE })
    expect(await thread.boot({ capacity: 8 })).toMatchObject({
      ok: false,
      error: 'exited',
      message: expect.stringContaining('cannot be loaded'),
    })
  })

  it('is not joined any more, and leaves no port open at the other end', async () => {
    const main = openMain()
    const [dead, alive] = [openFixture('dead'), openFixture('alive')]
    const actor = await bootOn(main, alive)
    await dead.terminate()
    expect(await joinKernel(main, dead)).toBe(false)
    const address = { ...actor, thread: dead.id }
    await main.ask(address, ignore, 60_000)
    expect(main.tell(address, { type: 'note', n: 1 })).toBe('stopped')
    expect(await joinThreads(alive, dead)).toBe(false)
  })

  it('is not dead when its boot fails, and says why', async () => {
    const thread = openFixture('worker')
    expect(await thread.boot({ capacity: 8, fails: true })).toEqual({ ok: false, error: 'failed', message: 'this boot was meant to fail' })
    expect(await thread.stats()).toMatchObject({ ok: true })
  })
})

describe('a supervisor', () => {
  function supervise(main: Kernel, more: Partial<Parameters<typeof superviseThread<FixtureBoot, FixtureReady>>[0]> = {}) {
    const actors: FixtureReady['actor'][] = []
    const events: string[] = []
    const waiting: { readonly event: string; readonly resolve: () => void }[] = []
    const note = (event: string): void => {
      events.push(event)
      for (const one of waiting) if (one.event === event) one.resolve()
    }
    const supervisor: Supervisor<Fixture> = superviseThread({
      spec: specOf('worker'),
      scheduler,
      async start(thread) {
        actors.push(await bootOn(main, thread))
        note(`booted ${thread.incarnation}`)
      },
      onLost: (exit) => note(`lost ${exit.incarnation} code ${exit.code}`),
      onPhase: (phase: Lifecycle) => note(phase),
      ...more,
    })
    closers.push(() => supervisor.close())
    const seen = (event: string): Promise<void> =>
      events.includes(event) ? Promise.resolve() : new Promise((resolve) => waiting.push({ event, resolve }))
    return { supervisor, actors, events, seen }
  }

  it('says who was lost first, then starts a fresh incarnation whose old addresses are dead', async () => {
    const main = openMain()
    const { supervisor, actors, events, seen } = supervise(main)
    expect(await supervisor.started).toBe(true)
    void supervisor.member.inject('exit')
    await seen('booted 2')
    expect(events.slice(0, 5)).toEqual(['booted 1', 'running', 'lost 1 code 7', 'starting', 'booted 2'])
    expect(main.tell(actors[0]!, { type: 'note', n: 1 })).toBe('stopped')
    const answer = await main.ask(actors[1]!, echo(new ArrayBuffer(1)), 5000)
    expect(answer).toMatchObject({ ok: true, value: { incarnation: 2 } })
  })

  it('does not try a thread again that never ran', async () => {
    const { supervisor, events, seen } = supervise(openMain(), {
      spec: specOf('worker', { url: BROKEN_MODULE }),
      async start(thread) {
        const answer = await thread.boot({ capacity: 8 })
        if (!answer.ok) throw new Error(answer.message)
      },
    })
    await seen('failed')
    expect(await supervisor.started).toBe(false)
    expect(events).toEqual(['lost 1 code 1', 'failed'])
    expect(await supervisor.close()).toMatchObject({ ok: false, error: 'exited' })
    expect(supervisor.phase).toBe('failed')
  })

  it('gives up when the budget is spent, on starts that throw as on exits', async () => {
    const main = openMain()
    let starts = 0
    const { supervisor, events, seen } = supervise(main, {
      restarts: { max: 2, withinMs: 60_000 },
      async start(thread) {
        starts++
        if (starts > 1) throw new Error('no peers')
        await bootOn(main, thread)
      },
    })
    await supervisor.started
    void supervisor.member.inject('exit')
    await seen('failed')
    expect(starts).toBe(3)
    // A worker that is terminated while it starts ends with code 0 or 1, as its timing has it.
    const plain = events.map((event) => event.replace(/^(lost [23]) code [01]$/, '$1'))
    expect(plain).toEqual(['running', 'lost 1 code 7', 'starting', 'lost 2', 'starting', 'lost 3', 'failed'])
  })

  it('kills a hung thread and starts another', async () => {
    const { supervisor, seen } = supervise(openMain(), {
      spec: specOf('worker', { deadlinesMs: { stats: 300, inject: 50 } }),
      watch: { everyMs: 20 },
    })
    await supervisor.started
    void supervisor.member.inject('busy')
    await seen('booted 2')
  })

  it('is abandoned without a drain, at once even when its thread hangs, and does not restart', async () => {
    const { supervisor, events } = supervise(openMain(), { spec: specOf('worker', { deadlinesMs: { inject: 50, stop: 100 } }) })
    await supervisor.started
    await supervisor.member.inject('busy')
    await supervisor.abandon()
    expect(events).toEqual(['booted 1', 'running', 'draining', 'stopped'])
    expect((await supervisor.member.exited).incarnation).toBe(1)
  })

  it('drains, stops and terminates in this order, once, and does not restart', async () => {
    const main = openMain()
    const { supervisor, actors, events } = supervise(main)
    await supervisor.started
    const ask = main.ask(actors[0]!, ignore, 60_000)
    const [first, second] = await Promise.all([supervisor.close(), supervisor.close()])
    expect(first).toMatchObject({ ok: true, value: { isDrained: true, steps: [{ step: 1, name: 'nothing to finish', ok: true }] } })
    expect(second).toBe(first)
    expect(events).toEqual(['booted 1', 'running', 'draining', 'drained', 'stopped'])
    expect(await ask).toEqual({ ok: false, error: 'stopped' })
    expect((await supervisor.member.exited).incarnation).toBe(1)
  })
})
