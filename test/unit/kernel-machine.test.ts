// The actor machine of one thread: lanes, asks, timers, pipes, children, restarts and ends.
import { describe, expect, it } from 'vitest'
import type { ActorContext, ActorExit, ActorSpec, Settled } from '../../src/kernel/actor.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Answer, Ask } from '../../src/kernel/ask.ts'
import type { Timer } from '../../src/kernel/clock.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'

/** An actor that does what it is told; within one thread a message may carry code. */
type Script =
  | { readonly type: 'do'; readonly act: (context: ActorContext<Script>) => void }
  | { readonly type: 'note'; readonly text: string }
  | { readonly type: 'question'; readonly ask: Ask<string>; readonly act: (context: ActorContext<Script>, ask: Ask<string>) => void }

type Stage = {
  readonly world: World
  readonly kernel: Kernel
  readonly notes: string[]
  readonly exits: ActorExit[]
  readonly reports: string[]
  actor(name: string, more?: Partial<ActorSpec<Script>>): Address<Script>
}

function openStage(choices = 200): Stage {
  const world = openWorld({ seed: 1, choices })
  const reports: string[] = []
  const kernel = openKernel({
    thread: threadId('one'),
    incarnation: 1,
    scheduler: world,
    random: world.random,
    peers: 0,
    report: (actor, error) => reports.push(`${actor}: ${error.message}`),
  })
  const notes: string[] = []
  const exits: ActorExit[] = []
  kernel.onExit((exit) => exits.push(exit))
  return {
    world,
    kernel,
    notes,
    exits,
    reports,
    actor(name, more = {}) {
      return kernel.spawn<Script>(script(name, notes, more))
    },
  }
}

function script(name: string, notes: string[], more: Partial<ActorSpec<Script>> = {}): ActorSpec<Script> {
  return {
    name,
    capacity: 8,
    create: (context) => ({
      receive(message) {
        if (message.type === 'do') message.act(context)
        else if (message.type === 'question') message.act(context, message.ask)
        else notes.push(`${name}:${message.text}`)
      },
      stopped: () => void notes.push(`${name} stopped`),
    }),
    ...more,
  }
}

const note = (text: string): Script => ({ type: 'note', text })
const doing = (act: (context: ActorContext<Script>) => void): Script => ({ type: 'do', act })
const question =
  (act: (context: ActorContext<Script>, ask: Ask<string>) => void) =>
  (ask: Ask<string>): Script => ({ type: 'question', ask, act })
const textOf = (answer: Answer<string>): Script => note(answer.ok ? answer.value : answer.error)
const silent = question(() => {})

describe('tell', () => {
  it('delivers in order, never synchronously', async () => {
    const { world, kernel, notes, actor } = openStage()
    const a = actor('a')
    for (const text of ['1', '2', '3']) expect(kernel.tell(a, note(text))).toBe('accepted')
    expect(notes).toEqual([])
    await world.run()
    expect(notes).toEqual(['a:1', 'a:2', 'a:3'])
  })

  it('answers full instead of growing, and accepts again when a message was read', async () => {
    const { world, kernel, actor } = openStage()
    const a = actor('a')
    const offers = Array.from({ length: 9 }, (_, n) => kernel.tell(a, note(`${n}`)))
    expect(offers).toEqual([...Array(8).fill('accepted'), 'full'])
    await world.run()
    expect(kernel.tell(a, note('again'))).toBe('accepted')
  })

  it.each([
    ['an ended actor', (a: Address<Script>) => a],
    ['another incarnation of the thread', (a: Address<Script>) => ({ ...a, incarnation: 2 })],
    ['an unknown thread', (a: Address<Script>) => ({ ...a, thread: threadId('two') })],
    ['an unknown actor', (a: Address<Script>) => ({ ...a, actor: 99 })],
  ])('answers stopped for %s', (_, of) => {
    const { kernel, actor } = openStage()
    const a = actor('a')
    const address = of(a)
    if (address === a) kernel.stop(a)
    expect(kernel.tell(address, note('x'))).toBe('stopped')
  })

  it('lets others run after 32 messages', async () => {
    const { world, kernel, notes, actor } = openStage(0)
    const busy = actor('busy', { capacity: 64 })
    const other = actor('other')
    for (let n = 0; n < 64; n++) kernel.tell(busy, note(`${n}`))
    kernel.tell(other, note('!'))
    await world.run()
    expect(notes.indexOf('other:!')).toBe(32)
    expect(notes).toHaveLength(65)
  })
})

describe('the system lane', () => {
  it('goes before the user lane, and is not refused by a full one', async () => {
    const { world, kernel, notes, actor } = openStage()
    const a = actor('a')
    const b = actor('b')
    kernel.tell(
      a,
      doing((context) => {
        context.after(0, note('timer'))
        context.ask(
          b,
          question((own, ask) => own.reply(ask, 'answer')),
          100,
          textOf,
        )
      }),
    )
    await world.run(() => kernel.stats().pendingAsks === 1)
    while (kernel.tell(a, note('user')) === 'accepted');
    await world.run(() => kernel.stats().mailboxes.some((mailbox) => mailbox.name === 'a' && mailbox.system > 0) || notes.length > 0)
    await world.run()
    expect(notes.filter((text) => text === 'a:user')).toHaveLength(8)
    expect(notes).toContain('a:answer')
    expect(notes).toContain('a:timer')
  })

  it('goes before user messages that were there first', async () => {
    const { world, kernel, notes, actor } = openStage()
    const gone = actor('gone')
    kernel.stop(gone)
    const a = actor('a')
    kernel.tell(
      a,
      doing((context) => {
        for (const text of ['1', '2']) context.tell(a, note(text))
        // Settles at once, so its answer is there while both user messages wait.
        context.ask(gone, silent, 100, textOf)
      }),
    )
    await world.run()
    expect(notes).toEqual(['gone stopped', 'a:stopped', 'a:1', 'a:2'])
  })
})

describe('an ask from outside', () => {
  it('settles with the reply', async () => {
    const { world, kernel, actor } = openStage()
    const answer = kernel.ask(
      actor('a'),
      question((context, ask) => context.reply(ask, 'yes')),
      100,
    )
    await world.run()
    expect(await answer).toEqual({ ok: true, value: 'yes' })
    expect(world.clock.nowMs()).toBe(0)
  })

  it('settles at its deadline, and drops and counts the reply that comes later', async () => {
    const { world, kernel, actor } = openStage()
    let asked: Ask<string> | null = null
    let settledAtMs = -1
    const answer = kernel.ask(
      actor('a'),
      question((_, ask) => {
        asked = ask
      }),
      50,
    )
    void answer.then(() => {
      settledAtMs = world.clock.nowMs()
    })
    await world.run()
    expect([await answer, settledAtMs]).toEqual([{ ok: false, error: 'deadline' }, 50])
    kernel.reply(asked!, 'late')
    expect(kernel.stats().lateReplies).toBe(1)
  })

  it('takes the first of two replies and counts the second', async () => {
    const { world, kernel, actor } = openStage()
    const answer = kernel.ask(
      actor('a'),
      question((context, ask) => {
        context.reply(ask, 'first')
        context.reply(ask, 'second')
      }),
      100,
    )
    await world.run()
    expect(await answer).toEqual({ ok: true, value: 'first' })
    expect(kernel.stats().lateReplies).toBe(1)
  })

  it('is answered full by a full mailbox and stopped by an ended actor', async () => {
    const { kernel, actor } = openStage()
    const a = actor('a')
    while (kernel.tell(a, note('x')) === 'accepted');
    expect(await kernel.ask(a, silent, 100)).toEqual({ ok: false, error: 'full' })
    kernel.stop(a)
    expect(await kernel.ask(a, silent, 100)).toEqual({ ok: false, error: 'stopped' })
  })

  it.each(['read', 'unread'])('is answered stopped when the actor ends with the question %s', async (when) => {
    const { world, kernel, actor } = openStage()
    const a = actor('a')
    const answer = kernel.ask(a, silent, 100)
    if (when === 'read') await world.run(() => kernel.stats().delivered === 1)
    kernel.stop(a)
    expect(await answer).toEqual({ ok: false, error: 'stopped' })
  })

  it('survives the end of an actor that forwarded it', async () => {
    const { world, kernel, actor } = openStage()
    const back = actor('back')
    const front = actor('front')
    const answer = kernel.ask(
      front,
      question((context, ask) => {
        context.tell(back, { type: 'question', ask, act: (own, forwarded) => own.reply(forwarded, 'from the back') })
        context.stop()
      }),
      100,
    )
    await world.run()
    expect(await answer).toEqual({ ok: true, value: 'from the back' })
  })

  it('holds at most 65536 open, and answers the next one full', async () => {
    const { kernel, actor } = openStage()
    const a = actor('a', { capacity: 131_072 })
    const open = Array.from({ length: 65_536 }, () => kernel.ask(a, silent, 1000))
    expect(await kernel.ask(a, silent, 1000)).toEqual({ ok: false, error: 'full' })
    kernel.stop(a)
    expect(new Set((await Promise.all(open)).map((answer) => (answer.ok ? 'ok' : answer.error)))).toEqual(new Set(['stopped']))
    const again = kernel.ask(actor('b'), silent, 1000)
    await kernel.close()
    expect(await again).toEqual({ ok: false, error: 'stopped' })
  })
})

describe('an ask from an actor', () => {
  it.each([
    ['the reply', 'yes', question((context: ActorContext<Script>, ask: Ask<string>) => context.reply(ask, 'yes'))],
    ['its deadline', 'deadline', silent],
    ['the end of the asked actor', 'stopped', question((context: ActorContext<Script>) => context.stop())],
    [
      'the crash of the asked actor',
      'stopped',
      question(() => {
        throw new Error('no')
      }),
    ],
  ])('gets exactly one message, made from %s', async (_, text, make) => {
    const { world, kernel, notes, actor } = openStage()
    const b = actor('b')
    kernel.tell(
      actor('a'),
      doing((context) => context.ask(b, make, 100, textOf)),
    )
    await world.run()
    expect(notes.filter((entry) => entry.startsWith('a:'))).toEqual([`a:${text}`])
    expect(kernel.stats()).toMatchObject({ pendingAsks: 0, pendingTimers: 0 })
  })

  it('gets even a refusal as a message, not in the middle of its turn', async () => {
    const { world, kernel, notes, actor } = openStage()
    const full = actor('full')
    while (
      kernel.tell(
        full,
        doing(() => {}),
      ) === 'accepted'
    );
    kernel.tell(
      actor('a'),
      doing((context) => {
        context.ask(full, silent, 100, textOf)
        context.ask({ ...full, actor: 99 }, silent, 100, textOf)
        notes.push('turn over')
      }),
    )
    await world.run(() => notes.length === 3)
    expect(notes.slice(0, 1)).toEqual(['turn over'])
    expect(notes.slice(1)).toContain('a:stopped')
  })

  it("is nobody's once the asker ended: its reply is late", async () => {
    const { world, kernel, notes, actor } = openStage()
    let asked: Ask<string> | null = null
    const b = actor('b')
    kernel.tell(
      actor('a'),
      doing((context) => {
        context.ask(
          b,
          question((_, ask) => {
            asked = ask
          }),
          100,
          textOf,
        )
      }),
    )
    await world.run(() => asked !== null)
    kernel.stop({ thread: kernel.thread, incarnation: 1, actor: 2, share: 0 })
    kernel.reply(asked!, 'late')
    await world.run()
    expect(notes).toEqual(['a stopped'])
    expect(kernel.stats()).toMatchObject({ lateReplies: 1, pendingAsks: 0 })
  })
})

describe('timers', () => {
  it('come at their time, in order, as messages', async () => {
    const { world, kernel, notes, actor } = openStage()
    kernel.tell(
      actor('a'),
      doing((context) => {
        context.after(20, note('20'))
        context.after(10, note('10'))
      }),
    )
    await world.advance(10)
    expect(notes).toEqual(['a:10'])
    await world.run()
    expect(notes).toEqual(['a:10', 'a:20'])
  })

  it.each(['before it fired', 'after it fired, unread'])('never come once cancelled %s', async (when) => {
    const { world, kernel, notes, actor } = openStage()
    const timers: Timer[] = []
    kernel.tell(
      actor('a'),
      doing((context) => void timers.push(context.after(10, note('never')))),
    )
    if (when === 'before it fired') await world.advance(9)
    else await world.run(() => kernel.stats().mailboxes.some((mailbox) => mailbox.system === 1))
    timers[0]?.cancel()
    timers[0]?.cancel()
    await world.run()
    expect(notes).toEqual([])
    expect(kernel.stats().pendingTimers).toBe(0)
  })

  it('give their place back when cancelled', async () => {
    const { world, kernel, reports, actor } = openStage()
    kernel.tell(
      actor('a'),
      doing((context) => {
        for (let n = 0; n < 140_000; n++) context.after(10, note('never')).cancel()
      }),
    )
    await world.run()
    expect(reports).toEqual([])
  })

  it('end with their actor', async () => {
    const { world, kernel, notes, actor } = openStage()
    kernel.tell(
      actor('a'),
      doing((context) => {
        context.after(10, note('never'))
        context.stop()
      }),
    )
    await world.run()
    expect(notes).toEqual(['a stopped'])
    expect(world.clock.nowMs()).toBe(0)
  })
})

describe('pipes', () => {
  const outcome = (settled: Settled<string>): Script => note(settled.ok ? settled.value : `error ${settled.error.message}`)

  it.each([
    ['a value', () => Promise.resolve('done'), 'a:done'],
    ['a rejection', () => Promise.reject(new Error('bad')), 'a:error bad'],
    ['a rejection that is no Error', () => Promise.reject('text'), 'a:error text'],
    [
      'a throw before the first await',
      () => {
        throw new Error('sync')
      },
      'a:error sync',
    ],
  ])('bring exactly one message for %s', async (_, work: () => Promise<string>, expected) => {
    const { world, kernel, notes, actor } = openStage()
    kernel.tell(
      actor('a'),
      doing((context) => context.pipe(work, outcome)),
    )
    await world.run()
    expect(notes).toEqual([expected])
  })

  it('say nothing to an actor that ended or began a new life meanwhile', async () => {
    const { world, kernel, notes, actor } = openStage()
    const a = actor('a', { restarts: { max: 1, withinMs: 1000 } })
    let finish = (_: string) => {}
    kernel.tell(
      a,
      doing((context) => {
        context.pipe(() => new Promise<string>((resolve) => (finish = resolve)), outcome)
        context.after(0, note('timer of the old life'))
        throw new Error('crash')
      }),
    )
    await world.run(() => notes.length === 1)
    finish('too late')
    await world.run()
    expect(notes).toEqual(['a stopped'])
  })
})

describe('the end of an actor', () => {
  it('comes after the current message and hands back what nobody will read', async () => {
    const { world, kernel, notes, exits, actor } = openStage()
    const a = actor('a')
    kernel.tell(
      a,
      doing((context) => {
        context.stop()
        notes.push('still here')
      }),
    )
    kernel.tell(a, note('unread'))
    await world.run()
    expect(notes).toEqual(['still here', 'a stopped'])
    expect(exits).toEqual([{ name: 'a', address: a, reason: 'stopped', error: null, undelivered: [note('unread')] }])
  })

  it('ends its children first told, first ended, and their timers', async () => {
    const { world, kernel, notes, exits, actor } = openStage()
    const parent = actor('parent')
    let child: Address<Script> | null = null
    kernel.tell(
      parent,
      doing((context) => {
        child = context.spawn(script('child', notes))
        context.tell(
          child,
          doing((own) => void own.after(1000, note('never'))),
        )
      }),
    )
    await world.run(() => kernel.stats().pendingTimers === 1)
    kernel.stop(parent)
    expect(exits.map((exit) => exit.name)).toEqual(['child', 'parent'])
    expect(kernel.tell(child!, note('x'))).toBe('stopped')
    expect(kernel.stats()).toMatchObject({ actors: 0, pendingTimers: 0 })
  })

  it('lets a child that stops its parent finish its message', async () => {
    const { world, kernel, notes, exits, actor } = openStage()
    const parent = actor('parent')
    kernel.tell(
      parent,
      doing((context) => {
        const child = context.spawn(script('child', notes))
        context.tell(
          child,
          doing(() => {
            kernel.stop(parent)
            notes.push('child goes on')
          }),
        )
      }),
    )
    await world.run()
    expect(notes).toEqual(['parent stopped', 'child goes on', 'child stopped'])
    expect(exits.map((exit) => exit.name)).toEqual(['parent', 'child'])
  })

  it('goes on when a last word throws', async () => {
    const { kernel, exits, reports } = openStage()
    const a = kernel.spawn<Script>({
      name: 'a',
      capacity: 8,
      create: () => ({
        receive() {},
        stopped() {
          throw new Error('last word')
        },
      }),
    })
    kernel.stop(a)
    expect(exits.map((exit) => exit.reason)).toEqual(['stopped'])
    expect(reports).toEqual(['a: last word'])
  })

  it('is the end of a crash without restarts, with the error', async () => {
    const { world, kernel, exits, actor } = openStage()
    const a = actor('a')
    kernel.tell(
      a,
      doing(() => {
        throw new Error('broken')
      }),
    )
    await world.run()
    expect(exits).toMatchObject([{ reason: 'crashed', error: { message: 'broken' } }])
    expect(kernel.tell(a, note('x'))).toBe('stopped')
  })

  it('may come while it is created', () => {
    const { kernel, exits } = openStage()
    const a = kernel.spawn<Script>({
      name: 'a',
      capacity: 8,
      create(context) {
        context.stop()
        return { receive() {} }
      },
    })
    expect(exits.map((exit) => exit.reason)).toEqual(['stopped'])
    expect(kernel.tell(a, note('x'))).toBe('stopped')
  })

  it('leaves nothing behind when create throws', () => {
    const { kernel, exits } = openStage()
    const spec: ActorSpec<Script> = {
      name: 'a',
      capacity: 8,
      create(context) {
        context.after(10, note('never'))
        throw new Error('no')
      },
    }
    expect(() => kernel.spawn(spec)).toThrow('no')
    expect(exits.map((exit) => exit.reason)).toEqual(['crashed'])
    expect(kernel.stats()).toMatchObject({ actors: 0, pendingTimers: 0 })
  })
})

describe('a restart', () => {
  const crash = doing(() => {
    throw new Error('crash')
  })

  it('gives a fresh receiver the messages that wait', async () => {
    const { world, kernel, notes, reports, actor } = openStage()
    const a = actor('a', { restarts: { max: 1, withinMs: 1000 } })
    for (const message of [note('before'), crash, note('after')]) kernel.tell(a, message)
    await world.run()
    expect(notes).toEqual(['a:before', 'a stopped', 'a:after'])
    expect(reports).toEqual(['a: crash'])
  })

  it('answers the questions that were read, keeps those that were not', async () => {
    const { world, kernel, actor } = openStage()
    const a = actor('a', { restarts: { max: 1, withinMs: 1000 } })
    const read = kernel.ask(a, silent, 100)
    kernel.tell(a, crash)
    const unread = kernel.ask(
      a,
      question((context, ask) => context.reply(ask, 'second life')),
      100,
    )
    await world.run()
    expect([await read, await unread]).toEqual([
      { ok: false, error: 'stopped' },
      { ok: true, value: 'second life' },
    ])
  })

  it('leaves the context of the old life without effect', async () => {
    const { world, kernel, notes, actor } = openStage()
    const contexts: ActorContext<Script>[] = []
    const a = actor('a', { restarts: { max: 1, withinMs: 1000 } })
    kernel.tell(
      a,
      doing((context) => {
        contexts.push(context)
        throw new Error('crash')
      }),
    )
    await world.run()
    contexts[0]?.after(1000, note('never'))
    contexts[0]?.stop()
    expect(() => contexts[0]?.spawn(script('child', notes))).toThrow(/has ended/)
    await world.run()
    expect(world.clock.nowMs()).toBe(0)
    expect(kernel.stats().actors).toBe(1)
  })

  it('ends the children of the old life', async () => {
    const { world, kernel, notes, exits, actor } = openStage()
    const a = actor('a', { restarts: { max: 1, withinMs: 1000 } })
    kernel.tell(
      a,
      doing((context) => {
        context.spawn(script('child', notes))
        throw new Error('crash')
      }),
    )
    await world.run()
    expect(exits.map((exit) => exit.name)).toEqual(['child'])
    expect(kernel.stats().actors).toBe(1)
  })

  it.each([
    { max: 0, crashesAtMs: [0], ends: true },
    { max: 2, crashesAtMs: [0, 1], ends: false },
    { max: 2, crashesAtMs: [0, 1, 2], ends: true },
    { max: 2, crashesAtMs: [0, 1, 1000], ends: false },
  ])('happens at most $max times in a second: crashes at $crashesAtMs end it: $ends', async ({ max, crashesAtMs, ends }) => {
    const { world, kernel, exits, actor } = openStage()
    const a = actor('a', { restarts: { max, withinMs: 1000 } })
    for (const atMs of crashesAtMs) {
      await world.advance(atMs - world.clock.nowMs())
      kernel.tell(a, crash)
      await world.advance(0)
    }
    expect(exits.map((exit) => exit.reason)).toEqual(ends ? ['crashed'] : [])
  })

  it('spends its budget on a create that throws, then ends', async () => {
    const { world, kernel, exits } = openStage()
    let created = 0
    const a = kernel.spawn<Script>({
      name: 'a',
      capacity: 8,
      restarts: { max: 3, withinMs: 1000 },
      create() {
        if (created++ > 0) throw new Error('again')
        return {
          receive() {
            throw new Error('first')
          },
        }
      },
    })
    kernel.tell(a, note('x'))
    await world.run()
    expect(created).toBe(4)
    expect(exits).toMatchObject([{ reason: 'crashed', error: { message: 'again' } }])
  })
})

describe('the kernel', () => {
  it('shows every delivery to a tap until it is taken off', async () => {
    const { world, kernel, actor } = openStage()
    const a = actor('a')
    const seen: string[] = []
    const off = kernel.inspect(({ actor: name, lane, message }) => seen.push(`${name} ${lane} ${(message as Script).type}`))
    kernel.tell(
      a,
      doing((context) => void context.after(1, note('x'))),
    )
    await world.run()
    off()
    kernel.tell(a, note('unseen'))
    await world.run()
    expect(seen).toEqual(['a user do', 'a system note'])
  })

  it('settles everything when it closes, once', async () => {
    const { world, kernel, notes, exits, actor } = openStage()
    const a = actor('a')
    const b = actor('b')
    kernel.tell(
      a,
      doing((context) => {
        context.after(1000, note('never'))
        context.ask(b, silent, 1000, textOf)
      }),
    )
    const outside = kernel.ask(b, silent, 1000)
    await world.run(() => kernel.stats().delivered === 3)
    kernel.tell(a, note('unread'))
    await kernel.close()
    await kernel.close()
    expect(await outside).toEqual({ ok: false, error: 'stopped' })
    expect(exits.map(({ name, reason, undelivered }) => [name, reason, undelivered.length])).toEqual([
      ['a', 'thread-closed', 1],
      ['b', 'thread-closed', 0],
    ])
    expect(kernel.stats()).toMatchObject({ actors: 0, pendingAsks: 0, pendingTimers: 0 })
    expect(kernel.tell(a, note('x'))).toBe('stopped')
    expect(await kernel.ask(a, silent, 10)).toEqual({ ok: false, error: 'stopped' })
    expect(kernel.tell(actor('c'), note('x'))).toBe('stopped')
    await world.run()
    expect(notes).toEqual(['a stopped', 'b stopped'])
    expect(world.clock.nowMs()).toBe(0)
  })
})
