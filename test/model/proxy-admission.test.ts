// Admission against a dumb oracle: limits hold, the line is bounded and fair, and nobody who could run waits.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { sessionId } from '../../src/contract/ids.ts'
import { openAdmission, type Ticket } from '../../src/proxy/admission.ts'

const LIMITS = { perSession: 2, perThread: 4, linePerSession: 2, linePerThread: 4 }

const action = fc.oneof(
  fc.record({ type: fc.constant('enter' as const), session: fc.nat(4) }),
  fc.record({ type: fc.constant('leave' as const), at: fc.nat(20) }),
)

it('runs whom it may, in order, and refuses only when the line is full', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 60, size: 'max' }), async (actions) => {
      const admission = openAdmission(LIMITS)
      const tickets: { readonly ticket: Ticket; readonly session: number; isAdmitted: boolean }[] = []
      let running: number[] = []
      let line: number[] = []
      const sessionOf = (index: number): number => tickets[index]?.session ?? -1
      const hasRoom = (session: number): boolean =>
        running.length < LIMITS.perThread && running.filter((index) => sessionOf(index) === session).length < LIMITS.perSession
      for (const each of actions) {
        if (each.type === 'enter') {
          const ticket = admission.enter(sessionId(`${each.session}`))
          const isFull =
            line.length >= LIMITS.linePerThread || line.filter((index) => sessionOf(index) === each.session).length >= LIMITS.linePerSession
          const runs = hasRoom(each.session)
          expect(ticket === null).toBe(!runs && isFull)
          if (ticket === null) continue
          const entry = { ticket, session: each.session, isAdmitted: false }
          void ticket.admitted.then(() => {
            entry.isAdmitted = true
          })
          tickets.push(entry)
          if (runs) running.push(tickets.length - 1)
          else line.push(tickets.length - 1)
        } else {
          const index = each.at % Math.max(1, tickets.length)
          tickets[index]?.ticket.leave()
          tickets[index]?.ticket.leave()
          line = line.filter((other) => other !== index)
          if (running.includes(index)) {
            running = running.filter((other) => other !== index)
            const next = line.find((other) => hasRoom(sessionOf(other)))
            if (next !== undefined) {
              running.push(next)
              line = line.filter((other) => other !== next)
            }
          }
        }
        await Promise.resolve()
        expect([admission.running(), admission.waiting()]).toEqual([running.length, line.length])
        for (const index of running) expect(tickets[index]?.isAdmitted).toBe(true)
        for (const index of line) expect(tickets[index]?.isAdmitted).toBe(false)
        for (const index of line) expect(hasRoom(sessionOf(index))).toBe(false)
      }
    }),
  )
})
