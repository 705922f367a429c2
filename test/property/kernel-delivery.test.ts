// Random threads, senders, schedules, cuts and ends: nothing accepted is lost or doubled, no bound is passed, every ask settles.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Address, type Offer, threadId } from '../../src/kernel/address.ts'
import type { Answer, Ask } from '../../src/kernel/ask.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openMailbox } from '../../src/kernel/mailbox.ts'
import { openPairWire, type PairWire } from '../../src/kernel/pair-wire.ts'
import { openWorld } from '../../src/kernel/world.ts'

type Parcel =
  | { readonly type: 'parcel'; readonly id: number }
  | { readonly type: 'request'; readonly id: number; readonly ask: Ask<number> }

type Step =
  | { readonly do: 'tell'; readonly to: number }
  | { readonly do: 'ask'; readonly to: number; readonly deadlineMs: number }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'cut'; readonly wire: number }
  | { readonly do: 'stop'; readonly actor: number }

type Plan = {
  readonly seed: number
  readonly impatience: number
  readonly capacities: readonly number[]
  /** How each actor treats a request: answers it, answers twice, keeps it, or ends. */
  readonly manners: readonly ('answers' | 'answers-twice' | 'keeps' | 'ends')[]
  readonly latencies: boolean
  readonly scripts: readonly (readonly Step[])[]
}

const THREADS = 3

const step = (isBroken: boolean): fc.Arbitrary<Step> =>
  fc.oneof(
    { weight: 8, arbitrary: fc.record({ do: fc.constant('tell' as const), to: fc.nat(THREADS - 1) }) },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant('ask' as const), to: fc.nat(THREADS - 1), deadlineMs: fc.integer({ min: 1, max: 50 }) }),
    },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 20 }) }) },
    { weight: isBroken ? 1 : 0, arbitrary: fc.record({ do: fc.constant('cut' as const), wire: fc.nat(THREADS - 1) }) },
    { weight: isBroken ? 1 : 0, arbitrary: fc.record({ do: fc.constant('stop' as const), actor: fc.nat(THREADS - 1) }) },
  )

const plan = (isBroken: boolean): fc.Arbitrary<Plan> =>
  fc.record({
    seed: fc.integer(),
    impatience: fc.constantFrom(0, 0.2),
    capacities: fc.array(fc.constantFrom(4, 8, 16), { minLength: THREADS, maxLength: THREADS }),
    manners: fc.array(
      isBroken ? fc.constantFrom('answers', 'answers-twice', 'keeps', 'ends') : fc.constantFrom('answers', 'answers-twice', 'keeps'),
      {
        minLength: THREADS,
        maxLength: THREADS,
      },
    ),
    latencies: fc.boolean(),
    scripts: fc.array(fc.array(step(isBroken), { maxLength: 25 }), { minLength: THREADS, maxLength: THREADS }),
  })

type Sent = { readonly id: number; readonly from: number; readonly to: number; offer: Offer | null }
type Asked = {
  readonly id: number
  readonly askedAtMs: number
  readonly deadlineMs: number
  readonly answers: { readonly atMs: number; readonly answer: Answer<number> }[]
}

async function execute(given: Plan) {
  const world = openWorld({ seed: given.seed, choices: 2000, impatience: given.impatience })
  const kernels = given.capacities.map((_, n) =>
    openKernel({ thread: threadId(`t${n}`), incarnation: 1, scheduler: world, random: world.random, peers: THREADS - 1 }),
  )
  const wires: PairWire[] = []
  const broken = new Set<string>()
  const pairs = [
    [0, 1],
    [1, 2],
    [0, 2],
  ] as const
  for (const [left, right] of pairs) {
    const wire = openPairWire(world, given.latencies ? { latencyMs: () => Math.floor(world.random.next() * 5) } : {})
    kernels[left]?.connect(threadId(`t${right}`), wire.left)
    kernels[right]?.connect(threadId(`t${left}`), wire.right)
    wires.push(wire)
  }

  const delivered: { readonly id: number; readonly at: number }[] = []
  const undelivered: number[] = []
  const ended = new Set<number>()
  let overfull = 0
  const actors = given.capacities.map((capacity, n) => {
    const kernel = kernels[n] as Kernel
    kernel.onExit((exit) => {
      ended.add(n)
      for (const message of exit.undelivered) undelivered.push((message as Parcel).id)
    })
    kernel.inspect(() => {
      for (const mailbox of kernel.stats().mailboxes) if (mailbox.user > mailbox.capacity) overfull++
    })
    return kernel.spawn<Parcel>({
      name: `sink ${n}`,
      capacity,
      create: (context) => ({
        receive(message) {
          delivered.push({ id: message.id, at: n })
          if (message.type === 'parcel') return
          const manner = given.manners[n]
          if (manner === 'ends') context.stop()
          if (manner === 'answers' || manner === 'answers-twice') context.reply(message.ask, message.id)
          if (manner === 'answers-twice') context.reply(message.ask, -1)
        },
      }),
    })
  })

  const sent: Sent[] = []
  const asked: Asked[] = []
  let lastId = 0
  given.scripts.forEach((script, from) => {
    const kernel = kernels[from] as Kernel
    const rest = [...script]
    const next = (): void => {
      const todo = rest.shift()
      if (todo === undefined) return
      if (todo.do === 'wait') {
        world.after(todo.ms, next)
        return
      }
      if (todo.do === 'cut') {
        wires[todo.wire]?.cut()
        const [left, right] = pairs[todo.wire] ?? [0, 0]
        broken.add(`${left}-${right}`).add(`${right}-${left}`)
      } else if (todo.do === 'stop') {
        kernels[todo.actor]?.stop(actors[todo.actor] as Address<Parcel>)
      } else {
        const record: Sent = { id: ++lastId, from, to: todo.to, offer: null }
        sent.push(record)
        const to = actors[todo.to] as Address<Parcel>
        if (todo.do === 'tell') record.offer = kernel.tell(to, { type: 'parcel', id: record.id })
        else {
          const one: Asked = { id: record.id, askedAtMs: world.clock.nowMs(), deadlineMs: todo.deadlineMs, answers: [] }
          asked.push(one)
          void kernel
            .ask<Parcel, number>(to, (ask) => ({ type: 'request', id: record.id, ask }), todo.deadlineMs)
            .then((answer) => one.answers.push({ atMs: world.clock.nowMs(), answer }))
        }
      }
      world.defer(next)
    }
    world.defer(next)
  })
  await world.run()
  return { world, kernels, actors, sent, asked, delivered, undelivered, ended, broken, overfull }
}

type Outcome = Awaited<ReturnType<typeof execute>>

function expectPromisesKept(outcome: Outcome): void {
  const { sent, asked, delivered, undelivered, ended, broken, kernels } = outcome
  const arrivals = new Map<number, number>()
  for (const { id } of delivered) arrivals.set(id, (arrivals.get(id) ?? 0) + 1)
  for (const { id, from, to, offer } of sent) {
    const count = arrivals.get(id) ?? 0
    expect(count, `message ${id} was doubled`).toBeLessThanOrEqual(1)
    if (offer === 'full' || offer === 'stopped') expect(count, `message ${id} was handed back and delivered`).toBe(0)
    if (offer === 'accepted' && count === 0) {
      const mayBeLost = broken.has(`${from}-${to}`) || (from !== to && ended.has(to))
      expect(mayBeLost || undelivered.includes(id), `message ${id} was lost`).toBe(true)
    }
  }
  for (const from of [0, 1, 2]) {
    for (const to of [0, 1, 2]) {
      const mine = new Set(sent.filter((one) => one.from === from && one.to === to).map((one) => one.id))
      const order = delivered.filter((one) => one.at === to && mine.has(one.id)).map((one) => one.id)
      expect(order).toEqual([...order].sort((a, b) => a - b))
    }
  }
  for (const { id, askedAtMs, deadlineMs, answers } of asked) {
    expect(answers, `ask ${id} settles once`).toHaveLength(1)
    expect(answers[0]?.atMs).toBeLessThanOrEqual(askedAtMs + deadlineMs)
    const answer = answers[0]?.answer
    if (answer?.ok) expect(answer.value).toBe(id)
    if (answer?.ok === false && answer.error === 'full') expect(arrivals.has(id)).toBe(false)
  }
  expect(outcome.overfull).toBe(0)
  for (const kernel of kernels) {
    const { pendingAsks, pendingTimers, mailboxes } = kernel.stats()
    expect({ pendingAsks, pendingTimers }).toEqual({ pendingAsks: 0, pendingTimers: 0 })
    for (const mailbox of mailboxes) expect([mailbox.user, mailbox.system]).toEqual([0, 0])
  }
}

describe('between three threads under any schedule', () => {
  it('everything accepted is delivered once and in order, and every ask settles once and in time', async () => {
    await fc.assert(
      fc.asyncProperty(plan(false), async (given) => {
        const outcome = await execute(given)
        expectPromisesKept(outcome)
        // At rest every place is free again: what is not on the sender's account the receiver owes as less than a batch.
        for (const [from, kernel] of outcome.kernels.entries()) {
          for (const [to, address] of outcome.actors.entries()) {
            if (from === to) continue
            let accepted = 0
            while (kernel.tell(address, { type: 'parcel', id: -1 }) === 'accepted') accepted++
            expect(accepted).toBeLessThanOrEqual(address.share)
            expect(accepted).toBeGreaterThan(address.share - Math.max(1, address.share >> 2))
          }
        }
        await outcome.world.run()
        expect(outcome.overfull).toBe(0)
      }),
      { numRuns: 150 },
    )
  })

  it('keeps these promises while wires are cut and actors end', async () => {
    await fc.assert(
      fc.asyncProperty(plan(true), async (given) => expectPromisesKept(await execute(given))),
      { numRuns: 250 },
    )
  })

  it('gives the same run for the same seed', async () => {
    await fc.assert(
      fc.asyncProperty(plan(true), async (given) => {
        const [first, second] = [await execute(given), await execute(given)]
        expect(second.delivered).toEqual(first.delivered)
        expect(second.asked).toEqual(first.asked)
        expect(second.world.clock.nowMs()).toBe(first.world.clock.nowMs())
      }),
      { numRuns: 40 },
    )
  })
})

describe('a mailbox with reservations', () => {
  it('behaves like a list and two counters, whatever is done in whatever order', () => {
    const command = fc.constantFrom('reserve', 'put', 'take', 'release', 'remove')
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.array(command, { maxLength: 200 }), (capacity, commands) => {
        const mailbox = openMailbox<number>(capacity)
        const list: number[] = []
        let reserved = 0
        commands.forEach((name, n) => {
          if (name === 'reserve') {
            const hasRoom = list.length + reserved < capacity
            expect(mailbox.reserve()).toBe(hasRoom)
            if (hasRoom) reserved++
          } else if (name === 'put' && reserved > 0) {
            mailbox.put(n)
            list.push(n)
            reserved--
          } else if (name === 'release' && reserved > 0) {
            mailbox.releaseReservation()
            reserved--
          } else if (name === 'take') {
            expect(mailbox.take()).toBe(list.shift())
          } else if (name === 'remove') {
            const index = list.findIndex((item) => item % 3 === 0)
            const [expected] = index < 0 ? [] : list.splice(index, 1)
            expect(mailbox.remove((item) => item % 3 === 0)).toBe(expected)
          }
          expect([mailbox.size, mailbox.reserved]).toEqual([list.length, reserved])
          expect(mailbox.size + mailbox.reserved).toBeLessThanOrEqual(mailbox.capacity)
        })
      }),
    )
  })
})
