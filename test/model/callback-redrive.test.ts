// The outbox against everything around it going its own way: deliveries, redrives, answers and refusals in any order.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { originOf } from '../../src/actors/callback/delivery.ts'
import type { CallbackCommand, DeliveryView, RedriveReply } from '../../src/actors/callback/protocol.ts'
import { type AttemptOutcome, type CallbackMessage, emptyOutbox, type OutboxEffect, step } from '../../src/actors/callback/state.ts'
import { knownSessionId, type TaskId, taskId } from '../../src/contract/ids.ts'
import { threadId } from '../../src/kernel/address.ts'

const LIMITS = { perTarget: 2, maxAttempts: 3, backoffBaseMs: 1, backoffCapMs: 4, maxRetryAfterMs: 1, deadlineMs: 1, maxKept: 1_000 }
const URLS = ['http://a/1', 'http://a/2', 'http://b/1'] as const
const STATES = ['pending', 'dead', 'delivered', 'none'] as const
const OUTCOMES: readonly AttemptOutcome[] = [
  { type: 'answered', status: 200, retryAfterMs: null },
  { type: 'answered', status: 404, retryAfterMs: null },
  { type: 'answered', status: 503, retryAfterMs: 1 },
  { type: 'failed', detail: 'ECONNREFUSED' },
]

type Send = Extract<OutboxEffect, { type: 'send' }>['delivery']
type Waiting = Extract<OutboxEffect, { type: 'after' | 'record' }>
type Luck = 'well' | 'no answer' | 'server full' | 'lost'

class Surroundings {
  state = emptyOutbox(LIMITS)
  readonly flights = new Map<TaskId, Send>()
  readonly waiting: Waiting[] = []
  readonly keys = new Map<TaskId, string>()
  /** Where each task is to go by what was asked for, null for nowhere; and how many flights it has had since it had to be sent anew. */
  readonly targets = new Map<TaskId, string | null>()
  readonly flown = new Map<TaskId, number>()
  readonly lastUrl = new Map<TaskId, string>()
  /** What the ledger has dropped. */
  readonly lost = new Set<TaskId>()
  readonly ledger = new Map<TaskId, string>()
  readonly server = new Map<TaskId, string>()
  readonly redrives = new Map<number, RedriveReply | null>()

  /** `offer`: how the rollout server takes what it is told in this turn; as in the actor, it is told at once. */
  send(message: CallbackMessage, offer: 'accepted' | 'full' = 'accepted') {
    const backlog: CallbackMessage[] = [message]
    for (let next = backlog.shift(); next !== undefined; next = backlog.shift()) {
      const [state, effects] = step(this.state, next, { chance: 0.5, wallMs: 0 })
      this.state = state
      for (const effect of effects) {
        if (effect.type === 'tell') {
          const { task, stamp } = effect
          if (offer === 'accepted') this.server.set(task, effect.state)
          backlog.push({ type: 'told', task, stamp, offer })
        } else this.#run(effect)
      }
    }
  }

  #run(effect: Exclude<OutboxEffect, { type: 'tell' }>) {
    switch (effect.type) {
      case 'send': {
        const { task, url, idempotencyKey } = effect.delivery
        expect(this.flights.has(task), `${task} flies once at a time`).toBe(false)
        this.flights.set(task, effect.delivery)
        const there = [...this.flights.values()].filter((flight) => originOf(flight.url) === originOf(url))
        expect(there.length, `flights to ${originOf(url)}`).toBeLessThanOrEqual(LIMITS.perTarget)
        expect(this.keys.get(task) ?? idempotencyKey, `the key of ${task}`).toBe(idempotencyKey)
        this.keys.set(task, idempotencyKey)
        this.flown.set(task, (this.flown.get(task) ?? 0) + 1)
        this.lastUrl.set(task, url)
        return
      }
      case 'abort':
        expect(this.flights.has(effect.task), `${effect.task} is cut while it flies`).toBe(true)
        return
      case 'reply': {
        expect(this.redrives.get(effect.ask.ask), 'an ask is answered once').toBe(null)
        const reply = effect.value as RedriveReply // no other ask is made here
        this.redrives.set(effect.ask.ask, reply)
        return
      }
      case 'report':
        return
      default:
        this.waiting.push(effect)
    }
  }

  deliver(url: string | null) {
    const task = taskId(`t${this.targets.size}`)
    this.targets.set(task, url)
    this.flown.set(task, url === null ? 1 : 0)
    this.server.set(task, url === null ? 'none' : 'pending')
    this.ledger.set(task, url === null ? 'none' : 'pending')
    const command: CallbackCommand = {
      type: 'deliver',
      task,
      url,
      shape: 'task',
      status: 'completed',
      sessions: [knownSessionId(`s-${task}`)],
      attempts: [1],
    }
    this.send(command)
  }

  redrive(tasks: readonly TaskId[] | null, states: readonly DeliveryView['state'][], url: string | null) {
    const views = this.views()
    const chosen = tasks ?? views.filter((view) => states.includes(view.state)).map((view) => view.task)
    const canGo = chosen.every((task) => (url ?? this.targets.get(task) ?? null) !== null)
    for (const task of canGo ? chosen : []) {
      this.targets.set(task, url ?? this.targets.get(task) ?? null)
      // What is on its way already may be what was asked for; everything else must fly again.
      if (views.find((view) => view.task === task)?.state !== 'pending') this.flown.set(task, 0)
    }
    const ask = this.redrives.size
    this.redrives.set(ask, null)
    this.send({ type: 'redrive', tasks, states, url, ask: { thread: threadId('test'), incarnation: 1, ask } })
    if (!canGo) expect(this.redrives.get(ask)).toMatchObject({ type: 'target' })
  }

  land(at: number, outcome: AttemptOutcome) {
    const flight = [...this.flights.values()][at % Math.max(1, this.flights.size)]
    if (flight === undefined) return
    this.flights.delete(flight.task)
    this.send({ type: 'attempt-ended', task: flight.task, stamp: flight.stamp, outcome })
  }

  /** What the outbox waits for happens, well or not; what goes to the ledger gets there in order. */
  happen(at: number, luck: Luck) {
    const picked = at % Math.max(1, this.waiting.length)
    const isRecord = this.waiting[picked]?.type === 'record'
    const [effect] = this.waiting.splice(isRecord ? this.waiting.findIndex(({ type }) => type === 'record') : picked, 1)
    if (effect === undefined) return
    if (effect.type === 'after') return this.send(effect.message)
    const { task, stamp, news } = effect
    if (luck === 'no answer') return this.send({ type: 'delivery-recorded', task, stamp, answer: { ok: false, error: 'deadline' } })
    // It drops nothing that is pending.
    if (this.lost.has(task) || (luck === 'lost' && this.ledger.get(task) !== 'pending')) {
      this.lost.add(task)
      const value = { type: 'refused', reason: 'conflict', detail: '' } as const
      return this.send({ type: 'delivery-recorded', task, stamp, answer: { ok: true, value } })
    }
    this.ledger.set(task, news.state)
    const offer = luck === 'server full' ? 'full' : 'accepted'
    return this.send({ type: 'delivery-recorded', task, stamp, answer: { ok: true, value: { type: 'recorded' } } }, offer)
  }

  views(): readonly DeliveryView[] {
    return STATES.flatMap((state) => {
      const ask = { thread: threadId('test'), incarnation: 1, ask: -1 }
      const [, effects] = step(this.state, { type: 'list-deliveries', state, limit: 1_000, ask }, { chance: 0, wallMs: 0 })
      // The reply to that ask.
      return effects.flatMap((effect) => (effect.type === 'reply' ? (effect.value as readonly DeliveryView[]) : []))
    })
  }
}

const url = fc.constantFrom(...URLS)
const event = fc.oneof(
  { weight: 2, arbitrary: fc.record({ type: fc.constant('deliver' as const), url: fc.option(url, { freq: 4 }) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('redrive' as const),
      tasks: fc.option(fc.array(fc.nat(20), { minLength: 1, maxLength: 4 })),
      states: fc.subarray([...STATES], { minLength: 1 }),
      url: fc.option(url, { freq: 2 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ type: fc.constant('land' as const), at: fc.nat(20), outcome: fc.constantFrom(...OUTCOMES) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      type: fc.constant('happen' as const),
      at: fc.nat(20),
      luck: fc.constantFrom<Luck>('well', 'well', 'well', 'no answer', 'server full', 'lost'),
    }),
  },
)

it('sends each task where it was last driven, one flight at a time and under one key, and answers every redrive', () => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 80, size: 'max' }), (events) => {
      const around = new Surroundings()
      for (const each of events) {
        const known = [...around.targets.keys()]
        switch (each.type) {
          case 'deliver':
            around.deliver(each.url)
            break
          case 'redrive': {
            const tasks = each.tasks?.flatMap((at) => known[at % Math.max(1, known.length)] ?? []) ?? null
            if (tasks === null || tasks.length > 0) around.redrive(tasks, each.states, each.url)
            break
          }
          case 'land':
            around.land(each.at, each.outcome)
            break
          case 'happen':
            around.happen(each.at, each.luck)
        }
      }
      for (let turns = 0; around.flights.size + around.waiting.length > 0; turns += 1) {
        expect(turns, 'it comes to rest').toBeLessThan(10_000)
        around.happen(0, 'well')
        around.land(0, { type: 'answered', status: 200, retryAfterMs: null })
      }

      expect([...around.redrives.values()].filter((reply) => reply === null)).toEqual([])
      expect([around.state.targets.size, around.state.deliveries.size, around.state.redrives.length]).toEqual([0, 0, 0])
      const views = new Map(around.views().map((view) => [view.task, view]))
      for (const [task, target] of around.targets) {
        const state = views.get(task)?.state
        if (around.lost.has(task)) {
          expect(state, task).toMatch(/^(delivered|dead)$/)
          continue
        }
        expect(state, task).toEqual(target === null ? 'none' : expect.stringMatching(/^(delivered|dead)$/))
        expect(around.server.get(task), `what the rollout server knows of ${task}`).toBe(state)
        expect(around.ledger.get(task), `what the ledger knows of ${task}`).toBe(state)
        if (target === null) continue
        expect(around.lastUrl.get(task), `where ${task} flew last`).toBe(target)
        expect(around.flown.get(task), `flights of ${task} since it was driven`).toBeGreaterThan(0)
      }
    }),
    { numRuns: 300 },
  )
})
