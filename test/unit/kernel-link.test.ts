// Two kernels on one thread, joined by wires that can be cut: credits, asks, incarnations.
import { describe, expect, it } from 'vitest'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Answer, Ask } from '../../src/kernel/ask.ts'
import type { Kernel, Wire } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openPairWire, type PairWire } from '../../src/kernel/pair-wire.ts'
import { buffersIn } from '../../src/kernel/transfer.ts'
import { openWorld, type World } from '../../src/kernel/world.ts'

type Message = { readonly type: 'note'; readonly text: string } | { readonly type: 'question'; readonly ask: Ask<string> }

const note = (text: string): Message => ({ type: 'note', text })
const question = (ask: Ask<string>): Message => ({ type: 'question', ask })

const LEFT = threadId('left')
const RIGHT = threadId('right')

function openThread(world: World, thread = LEFT, incarnation = 1, peers = 1): Kernel {
  return openKernel({ thread, incarnation, scheduler: world, random: world.random, peers })
}

function join(world: World, left: Kernel, right: Kernel): PairWire {
  const pair = openPairWire(world)
  left.connect(right.thread, pair.left)
  right.connect(left.thread, pair.right)
  return pair
}

type Sink = { readonly address: Address<Message>; readonly texts: string[]; readonly asks: Ask<string>[] }

/** Notes down texts and answers every question at once, unless told to keep the questions. */
function openSink(kernel: Kernel, options: { readonly keeps?: boolean; readonly capacity?: number } = {}): Sink {
  const texts: string[] = []
  const asks: Ask<string>[] = []
  const address = kernel.spawn<Message>({
    name: 'sink',
    capacity: options.capacity ?? 16,
    create: (context) => ({
      receive(message) {
        if (message.type === 'note') texts.push(message.text)
        else if (options.keeps === true) asks.push(message.ask)
        else context.reply(message.ask, 'yes')
      },
    }),
  })
  return { address, texts, asks }
}

function openStage(options: Parameters<typeof openSink>[1] = {}) {
  const world = openWorld({ seed: 1 })
  const left = openThread(world, LEFT)
  const right = openThread(world, RIGHT)
  const pair = join(world, left, right)
  return { world, left, right, pair, sink: openSink(right, options) }
}

describe('a tell to another thread', () => {
  it('arrives in order, and is full when the share is used up', async () => {
    const { world, left, sink } = openStage()
    const offers = Array.from({ length: 9 }, (_, n) => left.tell(sink.address, note(`${n}`)))
    expect(offers).toEqual([...Array(8).fill('accepted'), 'full'])
    await world.run()
    expect(sink.texts).toEqual(['0', '1', '2', '3', '4', '5', '6', '7'])
    expect(left.tell(sink.address, note('again'))).toBe('accepted')
  })

  it('leaves the local senders their own places', () => {
    const { left, right, sink } = openStage()
    while (left.tell(sink.address, note('far')) === 'accepted');
    const offers = Array.from({ length: 9 }, () => right.tell(sink.address, note('near')))
    expect(offers.filter((offer) => offer === 'accepted')).toHaveLength(8)
  })

  it('says stopped once the actor is known to have ended, and hands the questions under way back as stopped', async () => {
    const { world, left, right, sink } = openStage({ keeps: true })
    const read = left.ask(sink.address, question, 1000)
    await world.run(() => sink.asks.length === 1)
    const underWay = left.ask(sink.address, question, 1000)
    right.stop(sink.address)
    await world.run()
    expect([await read, await underWay]).toEqual([
      { ok: false, error: 'stopped' },
      { ok: false, error: 'stopped' },
    ])
    expect(left.tell(sink.address, note('x'))).toBe('stopped')
    expect(right.stats().undeliverable).toBe(1)
    expect(world.clock.nowMs()).toBe(0)
  })

  it.each([
    ['cut', (pair: PairWire) => pair.cut()],
    ['closed here', (pair: PairWire) => pair.left.close()],
    ['closed there', (pair: PairWire) => pair.right.close()],
  ])('says stopped when the wire was %s', async (_, end) => {
    const { world, left, pair, sink } = openStage()
    end(pair)
    await world.run()
    expect(left.tell(sink.address, note('x'))).toBe('stopped')
  })

  it('throws for a message that cannot be cloned, and costs no credit and leaves no ask open', async () => {
    const world = openWorld({ seed: 1 })
    const left = openThread(world)
    let fails = true
    const wire: Wire = {
      post(frame) {
        if (fails && (frame as { type: string }).type === 'tell') throw new Error('DataCloneError')
      },
      open() {},
      close() {},
    }
    left.connect(RIGHT, wire)
    const to: Address<Message> = { thread: RIGHT, incarnation: 1, actor: 1, share: 1 }
    expect(() => left.tell(to, note('x'))).toThrow('DataCloneError')
    await expect(left.ask(to, question, 1000)).rejects.toThrow('DataCloneError')
    expect(left.stats().pendingAsks).toBe(0)
    fails = false
    expect(left.tell(to, note('x'))).toBe('accepted')
    expect(left.tell(to, note('x'))).toBe('full')
  })
})

describe('an ask of another thread', () => {
  it('is answered', async () => {
    const { world, left, sink } = openStage()
    const answer = left.ask(sink.address, question, 1000)
    await world.run()
    expect(await answer).toEqual({ ok: true, value: 'yes' })
    expect(left.stats().pendingAsks).toBe(0)
  })

  it('is answered stopped at once when the wire dies', async () => {
    const { world, left, pair, sink } = openStage({ keeps: true })
    const answer = left.ask(sink.address, question, 1000)
    await world.run(() => sink.asks.length === 1)
    pair.cut()
    await world.run()
    expect(await answer).toEqual({ ok: false, error: 'stopped' })
    expect(world.clock.nowMs()).toBe(0)
  })

  it('settles at its deadline; the late reply is counted where it was asked', async () => {
    const { world, left, right, sink } = openStage({ keeps: true })
    const answer = left.ask(sink.address, question, 50)
    await world.run()
    expect(await answer).toEqual({ ok: false, error: 'deadline' })
    right.reply(sink.asks[0]!, 'late')
    await world.run()
    expect(left.stats().lateReplies).toBe(1)
  })

  it('is full without credits', async () => {
    const { left, sink } = openStage()
    while (left.tell(sink.address, note('x')) === 'accepted');
    expect(await left.ask(sink.address, question, 1000)).toEqual({ ok: false, error: 'full' })
  })

  it('forwarded to a third thread is answered from there', async () => {
    const world = openWorld({ seed: 3 })
    const threads = ['a', 'b', 'c'].map((name) => openThread(world, threadId(name), 1, 2))
    const [a, b, c] = threads as [Kernel, Kernel, Kernel]
    join(world, a, b)
    join(world, b, c)
    join(world, a, c)
    const back = openSink(c)
    const front = b.spawn<Message>({
      name: 'front',
      capacity: 4,
      create: (context) => ({
        receive(message) {
          context.tell(back.address, message)
          context.stop()
        },
      }),
    })
    const answer = a.ask(front, question, 1000)
    await world.run()
    expect(await answer).toEqual({ ok: true, value: 'yes' })
  })
})

describe('a thread that was restarted', () => {
  function restart(stage: ReturnType<typeof openStage>, incarnation: number) {
    const right = openThread(stage.world, RIGHT, incarnation)
    const sink = openSink(right)
    return { right, sink, pair: join(stage.world, stage.left, right) }
  }

  it('is reached at its new addresses; the old ones answer stopped, before and after its hello', async () => {
    const stage = openStage()
    await stage.world.run()
    stage.pair.cut()
    await stage.world.run()
    const second = restart(stage, 2)
    expect(stage.left.tell(stage.sink.address, note('old'))).toBe('stopped')
    expect(stage.left.tell(second.sink.address, note('early'))).toBe('accepted')
    await stage.world.run()
    expect(stage.left.tell(stage.sink.address, note('old'))).toBe('stopped')
    const answer = stage.left.ask(second.sink.address, question, 1000)
    await stage.world.run()
    expect(await answer).toEqual({ ok: true, value: 'yes' })
    expect(second.sink.texts).toEqual(['early'])
  })

  it('replaces a wire that seemed alive, and settles what waited on it', async () => {
    const stage = openStage({ keeps: true })
    const answer = stage.left.ask(stage.sink.address, question, 1000)
    await stage.world.run(() => stage.sink.asks.length === 1)
    restart(stage, 2)
    expect(await answer).toEqual({ ok: false, error: 'stopped' })
  })

  it('is refused when it is older than what was known', async () => {
    const stage = openStage()
    await stage.world.run()
    const second = restart(stage, 2)
    await stage.world.run()
    const first = restart(stage, 1)
    await stage.world.run()
    expect(stage.left.tell(first.sink.address, note('x'))).toBe('stopped')
    expect(stage.left.tell(second.sink.address, note('x'))).toBe('stopped')
  })

  it('never pushes a mailbox over its capacity with a share its last life had filled', async () => {
    const world = openWorld({ seed: 1 })
    const right = openThread(world, RIGHT)
    const sink = openSink(right, { capacity: 4 })
    for (const text of ['near 1', 'near 2']) right.tell(sink.address, note(text))
    for (const incarnation of [1, 2, 3]) {
      const raw = openRawWire()
      right.connect(LEFT, raw.wire)
      raw.frame({ type: 'hello', incarnation })
      for (const n of [1, 2]) raw.frame({ type: 'tell', incarnation: 1, actor: sink.address.actor, message: note(`${incarnation}.${n}`) })
      expect(right.stats().mailboxes).toMatchObject([{ user: 4, capacity: 4 }])
    }
    await world.run()
    // What the second life sent was never in the mailbox and went with its wire.
    expect(sink.texts).toEqual(['near 1', 'near 2', '1.1', '1.2', '3.1', '3.2'])
  })
})

/** A wire whose far end is the test: frames come at once, what was posted is kept. */
function openRawWire() {
  const posted: unknown[] = []
  const moved: ArrayBuffer[] = []
  let handlers: Parameters<Wire['open']>[0] | null = null
  let isClosed = false
  const wire: Wire = {
    post(frame, transfer) {
      posted.push(frame)
      moved.push(...transfer)
    },
    open(given) {
      handlers = given
    },
    close() {
      isClosed = true
    },
  }
  return {
    wire,
    posted,
    moved,
    frame: (frame: unknown) => handlers?.frame(frame),
    closed: () => handlers?.closed(),
    isClosed: () => isClosed,
  }
}

describe('the protocol between kernels', () => {
  function openRaw(capacity: number) {
    const world = openWorld({ seed: 1 })
    const right = openThread(world, RIGHT)
    const sink = openSink(right, { capacity, keeps: true })
    const raw = openRawWire()
    right.connect(LEFT, raw.wire)
    raw.frame({ type: 'hello', incarnation: 1 })
    const tell = (message: unknown) => raw.frame({ type: 'tell', incarnation: 1, actor: sink.address.actor, message })
    const posted = (type: string) => raw.posted.filter((frame) => (frame as { type: string }).type === type)
    return { world, right, sink, raw, tell, posted }
  }

  it('gives credits back in batches of a quarter of the share', async () => {
    const { world, tell, posted } = openRaw(32)
    for (let n = 0; n < 11; n++) tell(note(`${n}`))
    expect(posted('credit')).toEqual([])
    await world.run()
    expect(posted('credit')).toEqual([
      { type: 'credit', actor: 1, count: 4 },
      { type: 'credit', actor: 1, count: 4 },
    ])
  })

  it('cuts a peer that sends more than its share', () => {
    const { raw, tell } = openRaw(4)
    tell(note('1'))
    tell(note('2'))
    expect(raw.isClosed()).toBe(false)
    tell(note('3'))
    expect(raw.isClosed()).toBe(true)
  })

  it('owes no answer once the asker gave up, not even for a question that was still unread', async () => {
    const { world, right, sink, raw, tell, posted } = openRaw(16)
    for (const ask of [1, 2]) tell(question({ thread: LEFT, incarnation: 1, ask }))
    raw.frame({ type: 'over', incarnation: 1, ask: 1 })
    await world.run()
    right.stop(sink.address)
    expect(posted('answer')).toEqual([{ type: 'answer', incarnation: 1, ask: 2, answer: { ok: false, error: 'stopped' } }])
  })

  it('moves the buffers of a message and of an answer', async () => {
    const { world, right, raw, tell } = openRaw(16)
    const [out, back] = [new ArrayBuffer(1), new ArrayBuffer(1)]
    const far: Address<{ readonly type: 'file'; readonly payload: ArrayBuffer }> = { thread: LEFT, incarnation: 1, actor: 1, share: 1 }
    right.tell(far, { type: 'file', payload: out })
    tell(question({ thread: LEFT, incarnation: 1, ask: 1 }))
    await world.run()
    right.reply<{ readonly payload: ArrayBuffer }>({ thread: LEFT, incarnation: 1, ask: 1 }, { payload: back })
    expect(raw.moved).toHaveLength(2)
    expect(raw.moved[0]).toBe(out)
    expect(raw.moved[1]).toBe(back)
  })

  it('tells the asked thread when nobody wants the answer any more, and counts no refusal that comes then', async () => {
    const world = openWorld({ seed: 1 })
    const left = openThread(world, LEFT)
    const raw = openRawWire()
    left.connect(RIGHT, raw.wire)
    const far: Address<Message> = { thread: RIGHT, incarnation: 1, actor: 1, share: 8 }
    const outside = left.ask(far, question, 50)
    const asker = left.spawn<Message>({
      name: 'asker',
      capacity: 8,
      create(context) {
        context.ask(far, question, 100, () => note('unwanted'))
        return { receive() {} }
      },
    })
    await world.advance(50)
    expect(await outside).toEqual({ ok: false, error: 'deadline' })
    left.stop(asker)
    expect(raw.posted.slice(3)).toEqual([
      { type: 'over', incarnation: 1, ask: 1 },
      { type: 'over', incarnation: 1, ask: 2 },
    ])
    raw.frame({ type: 'answer', incarnation: 1, ask: 1, answer: { ok: false, error: 'stopped' } })
    expect(left.stats().lateReplies).toBe(0)
    raw.frame({ type: 'answer', incarnation: 1, ask: 2, answer: { ok: true, value: 'late' } })
    expect(left.stats().lateReplies).toBe(1)
  })

  it('before the hello, holds nothing of an older incarnation against a newer one', () => {
    const left = openThread(openWorld({ seed: 1 }), LEFT)
    const raw = openRawWire()
    left.connect(RIGHT, raw.wire)
    const to = (incarnation: number): Address<Message> => ({ thread: RIGHT, incarnation, actor: 1, share: 2 })
    expect([1, 1, 1, 2].map((incarnation) => left.tell(to(incarnation), note('x')))).toEqual(['accepted', 'accepted', 'full', 'accepted'])
    raw.frame({ type: 'gone', incarnation: 1, actor: 1 })
    expect([1, 2, 2].map((incarnation) => left.tell(to(incarnation), note('x')))).toEqual(['stopped', 'accepted', 'full'])
  })

  it('goes on owing the others when one thread dies', async () => {
    const right = openThread(openWorld({ seed: 1 }), RIGHT, 1, 2)
    const sink = openSink(right, { keeps: true })
    const [dying, living] = [openRawWire(), openRawWire()]
    const other = threadId('other')
    right.connect(LEFT, dying.wire)
    right.connect(other, living.wire)
    living.frame({ type: 'tell', incarnation: 1, actor: 1, message: question({ thread: other, incarnation: 1, ask: 5 }) })
    dying.frame({ type: 'tell', incarnation: 1, actor: 1, message: question({ thread: LEFT, incarnation: 1, ask: 6 }) })
    dying.closed()
    right.stop(sink.address)
    expect(living.posted).toContainEqual({ type: 'answer', incarnation: 1, ask: 5, answer: { ok: false, error: 'stopped' } })
  })

  it('owes a dead thread nothing, and does not send its answers to the next incarnation', async () => {
    const { right, sink, tell } = openRaw(16)
    tell(question({ thread: LEFT, incarnation: 1, ask: 1 }))
    const next = openRawWire()
    right.connect(LEFT, next.wire)
    next.frame({ type: 'hello', incarnation: 2 })
    right.stop(sink.address)
    expect(next.posted).toEqual([{ type: 'hello', incarnation: 1 }])
  })

  it('says that an actor is gone to whoever wrote to it, and to whoever writes later', async () => {
    const { right, sink, tell, posted } = openRaw(16)
    tell(note('x'))
    right.stop(sink.address)
    expect(posted('gone')).toEqual([{ type: 'gone', incarnation: 1, actor: 1 }])
    tell(note('later'))
    expect(posted('gone')).toHaveLength(2)
    expect(right.stats().undeliverable).toBe(1)
  })

  it("does not take an old incarnation's frame for its own", () => {
    const { right, sink, raw, posted } = openRaw(16)
    raw.frame({ type: 'tell', incarnation: 0, actor: sink.address.actor, message: question({ thread: LEFT, incarnation: 1, ask: 7 }) })
    expect(right.stats().mailboxes).toMatchObject([{ user: 0 }])
    expect(posted('gone')).toEqual([{ type: 'gone', incarnation: 0, actor: 1 }])
    expect(posted('answer')).toMatchObject([{ ask: 7, answer: { error: 'stopped' } }])
  })
})

describe('a kernel with links', () => {
  it('refuses more peers than its mailboxes are shared among', () => {
    const world = openWorld({ seed: 1 })
    const kernel = openThread(world)
    kernel.connect(RIGHT, openPairWire(world).left)
    expect(() => kernel.connect(threadId('third'), openPairWire(world).left)).toThrow(/one more/)
  })

  it('closes its wires when it closes', async () => {
    const kernel = openThread(openWorld({ seed: 1 }))
    const raw = openRawWire()
    kernel.connect(RIGHT, raw.wire)
    await kernel.close()
    expect(raw.isClosed()).toBe(true)
  })

  it('raises a capacity that would leave some thread without a place', () => {
    const world = openWorld({ seed: 1 })
    const kernel = openThread(world, LEFT, 1, 4)
    const { address } = openSink(kernel, { capacity: 1 })
    expect(address.share).toBe(1)
    expect(kernel.stats().mailboxes).toMatchObject([{ capacity: 8 }])
    expect([1, 2, 3, 4, 5].map(() => kernel.tell(address, note('x')))).toEqual([...Array(4).fill('accepted'), 'full'])
  })

  it('tells its peers when it closes: their asks settle, their tells say stopped', async () => {
    const { world, left, right, sink } = openStage({ keeps: true })
    const answers: Promise<Answer<string>>[] = [left.ask(sink.address, question, 1000)]
    await world.run(() => sink.asks.length === 1)
    answers.push(left.ask(sink.address, question, 1000))
    await right.close()
    await world.run()
    for (const answer of answers) expect(await answer).toEqual({ ok: false, error: 'stopped' })
    expect(left.tell(sink.address, note('x'))).toBe('stopped')
    expect(world.clock.nowMs()).toBe(0)
  })
})

describe('a pair of wires', () => {
  function openPair() {
    const world = openWorld({ seed: 1 })
    const pair = openPairWire(world)
    const heard: string[] = []
    pair.left.open({ frame: (frame) => heard.push(`left ${frame}`), closed: () => heard.push('left closed') })
    pair.right.open({ frame: (frame) => heard.push(`right ${frame}`), closed: () => heard.push('right closed') })
    return { world, pair, heard }
  }

  it('loses what is under way when it is cut', async () => {
    const { world, pair, heard } = openPair()
    pair.left.post('lost', [])
    pair.cut()
    pair.right.post('later', [])
    await world.run()
    expect(heard.sort()).toEqual(['left closed', 'right closed'])
  })

  it('delivers what was posted before a close, and nothing to who closed', async () => {
    const { world, pair, heard } = openPair()
    pair.right.post('unheard', [])
    pair.left.post('last words', [])
    pair.left.close()
    pair.right.post('unheard', [])
    pair.left.post('after the close', [])
    await world.run()
    expect(heard.filter((entry) => entry.startsWith('left'))).toEqual(['left closed'])
    expect(heard.filter((entry) => entry.startsWith('right'))).toEqual(['right last words', 'right closed'])
  })

  it('keeps frames until its end is opened', async () => {
    const world = openWorld({ seed: 1 })
    const pair = openPairWire(world, { latencyMs: () => 5 })
    for (const frame of [1, 2]) pair.left.post(frame, [])
    await world.run()
    const heard: unknown[] = []
    pair.right.open({ frame: (frame) => heard.push(frame), closed() {} })
    await world.run()
    expect([heard, world.clock.nowMs()]).toEqual([[1, 2], 5])
  })
})

describe('what moves instead of being copied', () => {
  const a = new ArrayBuffer(4)
  const b = new ArrayBuffer(4)
  const shared = new SharedArrayBuffer(4)
  it.each([
    ['nothing', { type: 'x', n: 1, s: 'text', none: null }, []],
    ['a buffer', a, [a]],
    ['a field', { type: 'x', payload: a }, [a]],
    ['a field one level deep', { type: 'x', body: { payload: a, other: b } }, [a, b]],
    ['a list of buffers', { type: 'x', parts: [a, b] }, [a, b]],
    ['a buffer named twice, once', { type: 'x', first: a, again: a, deep: { a } }, [a]],
    ['no shared buffer', { type: 'x', slab: shared, deep: { shared } }, []],
    ['no buffer two levels deep', { type: 'x', one: { two: { a } } }, []],
    ['no list of numbers', { type: 'x', ids: [1, 2, 3] }, []],
    ['no text', 'text', []],
  ])('%s', (_, message, expected) => {
    const found = buffersIn(message)
    expect(found).toHaveLength(expected.length)
    // The same buffers, not equal ones.
    for (const [index, buffer] of expected.entries()) expect(found[index]).toBe(buffer)
  })
})
