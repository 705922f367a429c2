// What a message costs: through a lane, to an actor of the same thread, and over a link with its credits.
import { bench, do_not_optimize, group } from 'mitata'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Scheduler } from '../../src/kernel/clock.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openMailbox } from '../../src/kernel/mailbox.ts'
import { openPairWire } from '../../src/kernel/pair-wire.ts'
import { UserLane } from '../../src/kernel/user-lane.ts'
import { seededRandom } from '../../src/kernel/world.ts'

/** One turn of an actor; the cost of the event loop's own turn is left out. */
const MESSAGES = 32
const CAPACITY = 1024

type Count = { readonly type: 'count' }
const COUNT: Count = { type: 'count' }

export function registerKernelBenches(): void {
  group(`${MESSAGES} messages through a queue`, () => {
    const lane = new UserLane<Count>(CAPACITY, 2)
    bench('user lane: offer, take', () => {
      for (let n = 0; n < MESSAGES; n++) lane.offer(COUNT)
      for (let n = 0; n < MESSAGES; n++) do_not_optimize(lane.take())
    })
    const mailbox = openMailbox<Count>(CAPACITY)
    bench('mailbox: reserve, put, take', () => {
      for (let n = 0; n < MESSAGES; n++) if (mailbox.reserve()) mailbox.put(COUNT)
      for (let n = 0; n < MESSAGES; n++) do_not_optimize(mailbox.take())
    })
  })

  group(`tell ${MESSAGES} messages and have them received`, () => {
    const local = openTurns()
    const kernel = openThread('local', local)
    const near = spawnCounter(kernel)
    bench('same thread', () => {
      for (let n = 0; n < MESSAGES; n++) kernel.tell(near, COUNT)
      local.runAll()
    })
    const wired = openTurns()
    const [left, right] = [openThread('left', wired), openThread('right', wired)]
    const pair = openPairWire(wired)
    left.connect(right.thread, pair.left)
    right.connect(left.thread, pair.right)
    const far = spawnCounter(right)
    bench('over a link', () => {
      for (let n = 0; n < MESSAGES; n++) left.tell(far, COUNT)
      wired.runAll()
    })
  })
}

function openThread(name: string, scheduler: Scheduler): Kernel {
  return openKernel({ thread: threadId(name), incarnation: 1, scheduler, random: seededRandom(1), peers: 1 })
}

function spawnCounter(kernel: Kernel): Address<Count> {
  let received = 0
  return kernel.spawn<Count>({ name: 'counter', capacity: CAPACITY, create: () => ({ receive: () => void do_not_optimize(received++) }) })
}

/** Turns that run when the bench says so. */
function openTurns(): Scheduler & { runAll(): void } {
  const turns: (() => void)[] = []
  return {
    clock: { nowMs: () => 0, wallMs: () => 0 },
    defer: (turn) => void turns.push(turn),
    after: () => ({ cancel() {} }),
    runAll() {
      // The list grows while it runs: a turn may defer another.
      for (const turn of turns) turn()
      turns.length = 0
    },
  }
}
