import { describe, expect, it } from 'vitest'
import { threadId } from '../../src/kernel/address.ts'
import { openCourier } from '../../src/kernel/courier.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'

function openBench() {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('t'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  const received: number[] = []
  const actor = kernel.spawn<number>({ name: 'reader', capacity: 2, create: () => ({ receive: (message) => void received.push(message) }) })
  return { world, kernel, received, actor }
}

describe('a courier', () => {
  it('delivers everything, once and in order, to a mailbox that is full again and again', async () => {
    const { world, kernel, received, actor } = openBench()
    const courier = openCourier(kernel)
    const taken: number[] = []
    const messages = Array.from({ length: 9 }, (_, index) => index)
    for (const message of messages) courier(actor, message, () => taken.push(message))
    expect(taken).toEqual([0, 1])
    await world.run()
    expect(received).toEqual(messages)
    expect(taken).toEqual(messages)
  })

  it('passes over an actor that has stopped, and says nothing of it', async () => {
    const { world, kernel, received, actor } = openBench()
    const courier = openCourier(kernel)
    for (const message of [1, 2, 3]) courier(actor, message)
    await world.advance(0)
    kernel.stop(actor)
    const other = kernel.spawn<number>({
      name: 'other',
      capacity: 2,
      create: () => ({ receive: (message) => void received.push(-message) }),
    })
    courier(actor, 4, () => received.push(99))
    courier(other, 5)
    await world.run()
    expect(received).toEqual([1, 2, -5])
  })
})
