import { describe, expect, it } from 'vitest'
import { Rounds } from '../../src/engine/embedded/llama-rounds.ts'

const NEVER = new AbortController().signal

type HeldWork = { readonly work: () => Promise<string>; end(): void; fail(error: Error): void }

/** Work that goes on until it is told to end. */
function heldWork(log: string[], name: string): HeldWork {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  return {
    work: () => {
      log.push(name)
      return promise
    },
    end: () => resolve(name),
    fail: reject,
  }
}

async function nextTurns(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await new Promise((resolve) => setImmediate(resolve))
}

describe('rounds', () => {
  it('start together those who wait, in the order of their sequences, and put who comes meanwhile into the next', async () => {
    const log: string[] = []
    const rounds = new Rounds()
    const [a, b, c] = [heldWork(log, 'a'), heldWork(log, 'b'), heldWork(log, 'c')]
    const first = [rounds.together(10, b.work, NEVER), rounds.together(2, a.work, NEVER)]
    await nextTurns()
    const second = rounds.together(1, c.work, NEVER)
    a.end()
    await nextTurns()
    expect(log).toEqual(['a', 'b'])
    b.end()
    await nextTurns()
    expect(log).toEqual(['a', 'b', 'c'])
    c.end()
    expect(await Promise.all([...first, second])).toEqual(['b', 'a', 'c'])
  })

  it('do one thing alone between two steps, and never during one', async () => {
    const log: string[] = []
    const rounds = new Rounds()
    const [a, b, erase, read] = [heldWork(log, 'a'), heldWork(log, 'b'), heldWork(log, 'erase'), heldWork(log, 'read')]
    const all = [rounds.together(0, a.work, NEVER), rounds.alone(erase.work, NEVER), rounds.alone(read.work, NEVER)]
    await nextTurns()
    expect(log).toEqual(['a'])
    all.push(rounds.together(0, b.work, NEVER))
    a.end()
    await nextTurns()
    expect(log).toEqual(['a', 'erase'])
    erase.end()
    await nextTurns()
    expect(log).toEqual(['a', 'erase', 'b'])
    b.end()
    await nextTurns()
    expect(log).toEqual(['a', 'erase', 'b', 'read'])
    read.end()
    expect(await Promise.all(all)).toEqual(['a', 'erase', 'read', 'b'])
  })

  it('let go of who leaves while waiting, and wait for work that has begun', async () => {
    const log: string[] = []
    const rounds = new Rounds()
    const [a, b] = [heldWork(log, 'a'), heldWork(log, 'b')]
    const leaver = new AbortController()
    const begun = rounds.together(0, a.work, leaver.signal)
    await nextTurns()
    const waiting = [rounds.together(1, b.work, leaver.signal), rounds.alone(b.work, leaver.signal)]
    leaver.abort('left')
    for (const each of waiting) await expect(each).rejects.toBe('left')
    a.end()
    expect(await begun).toBe('a')
    await nextTurns()
    expect(log).toEqual(['a'])
    await expect(rounds.together(1, b.work, leaver.signal)).rejects.toBe('left')
  })

  it.each(['together', 'alone'] as const)('go on after work done %s that failed', async (kind) => {
    const log: string[] = []
    const rounds = new Rounds()
    const [a, b] = [heldWork(log, 'a'), heldWork(log, 'b')]
    const failing = kind === 'together' ? rounds.together(0, a.work, NEVER) : rounds.alone(a.work, NEVER)
    await nextTurns()
    const next = rounds.together(0, b.work, NEVER)
    a.fail(new Error('broken'))
    await expect(failing).rejects.toThrow('broken')
    b.end()
    expect(await next).toBe('b')
  })
})
