// The bounded queues of the kernel.
import { describe, expect, it } from 'vitest'
import { openMailbox } from '../../src/kernel/mailbox.ts'
import { shareOf, UserLane } from '../../src/kernel/user-lane.ts'

describe('a mailbox with reservations', () => {
  it('counts reserved and filled places against one capacity', () => {
    const mailbox = openMailbox<string>(2)
    expect(mailbox.reserve()).toBe(true)
    expect(mailbox.reserve()).toBe(true)
    expect(mailbox.reserve()).toBe(false)
    mailbox.put('a')
    expect([mailbox.reserved, mailbox.size]).toEqual([1, 1])
    expect(mailbox.reserve()).toBe(false)
    expect(mailbox.take()).toBe('a')
    expect(mailbox.reserve()).toBe(true)
  })

  it('gives a released place to the next who reserves', () => {
    const mailbox = openMailbox<string>(1)
    mailbox.reserve()
    mailbox.releaseReservation()
    expect(mailbox.reserve()).toBe(true)
  })

  it('throws at a put or a release without a reservation', () => {
    const mailbox = openMailbox<string>(1)
    expect(() => mailbox.put('a')).toThrow(/without a reservation/)
    expect(() => mailbox.releaseReservation()).toThrow(/nobody holds/)
  })

  it('keeps the order around a message taken from the middle', () => {
    const mailbox = openMailbox<string>(3)
    for (const text of ['a', 'b', 'c']) {
      mailbox.reserve()
      mailbox.put(text)
    }
    expect(mailbox.remove((text) => text === 'b')).toBe('b')
    expect(mailbox.remove((text) => text === 'b')).toBeUndefined()
    expect([mailbox.take(), mailbox.take(), mailbox.take()]).toEqual(['a', 'c', undefined])
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses a capacity of %s', (capacity) => {
    expect(() => openMailbox(capacity)).toThrow(/capacity/)
  })
})

describe('a user lane', () => {
  it.each([
    { capacity: 8, peers: 0, share: 8, local: 8 },
    { capacity: 8, peers: 1, share: 4, local: 4 },
    { capacity: 8, peers: 2, share: 2, local: 4 },
    { capacity: 8, peers: 3, share: 2, local: 2 },
    { capacity: 4, peers: 3, share: 1, local: 1 },
    { capacity: 1024, peers: 4, share: 204, local: 208 },
  ])('divides $capacity places among $peers threads and its own', ({ capacity, peers, share, local }) => {
    const lane = new UserLane<number>(capacity, peers)
    let accepted = 0
    while (lane.offer(accepted)) accepted++
    expect([shareOf(capacity, peers), accepted]).toEqual([share, local])
    expect(share * peers + accepted).toBeLessThanOrEqual(capacity)
  })

  it('refuses a capacity that gives some thread no place', () => {
    expect(() => new UserLane(2, 2)).toThrow(/cannot be shared/)
    expect(() => new UserLane(12, 0)).toThrow(/power of two/)
  })

  it('keeps arrivals waiting outside while a dead incarnation fills their places, and forgets them with their link', () => {
    const lane = new UserLane<string>(2, 1)
    const credits = { first: 0, second: 0, third: 0 }
    const first = { taken: () => void credits.first++ }
    const second = { taken: () => void credits.second++ }
    const third = { taken: () => void credits.third++ }
    lane.offer('local')
    lane.admit(first, 'first')
    lane.admit(second, 'second')
    lane.admit(third, 'third')
    expect(lane.size).toBe(2)
    expect(lane.offer('more')).toBe(false)
    lane.forget(second)
    expect(lane.waiting()).toEqual(['local', 'first', 'third'])
    expect([lane.take(), lane.take(), lane.take(), lane.take()]).toEqual(['local', 'first', 'third', undefined])
    expect(credits).toEqual({ first: 1, second: 0, third: 1 })
  })

  it('is full for local senders while a dead incarnation holds their places', () => {
    const lane = new UserLane<string>(4, 1)
    const origin = { taken() {} }
    for (const text of ['1', '2', '3', '4', '5', '6']) lane.admit(origin, text)
    expect(lane.offer('local')).toBe(false)
    const taken = [1, 2, 3, 4, 5, 6].map(() => [lane.take(), lane.size])
    expect(taken).toEqual([
      ['1', 4],
      ['2', 4],
      ['3', 3],
      ['4', 2],
      ['5', 1],
      ['6', 0],
    ])
    expect(lane.offer('local')).toBe(true)
  })

  it('grows to its capacity without losing the order', () => {
    const lane = new UserLane<number>(128, 0)
    // Begins in the middle of the first array, so that growing has to unroll it.
    for (let n = 0; n < 10; n++) lane.offer(n)
    for (let n = 0; n < 10; n++) lane.take()
    for (let round = 0; round < 3; round++) {
      for (let n = 0; n < 128; n++) expect(lane.offer(n)).toBe(true)
      expect(lane.offer(128)).toBe(false)
      for (let n = 0; n < 128; n++) expect(lane.take()).toBe(n)
    }
  })
})
