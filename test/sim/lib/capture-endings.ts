// What must hold of every capture after a day: one attempt, one end, one result, delivered in one way.
import type { Day } from './simulation.ts'

export function everyCaptureEndsOnce({ schedule, captures, results, events, arrivals }: Day): readonly string[] {
  const found: string[] = []
  for (const { session, resultUrl, request } of schedule.captures) {
    const view = captures.get(session)
    const ends = events.filter((event) => event.type === 'session.state_changed' && event.session === session && event.summary !== null)
    if (ends.length !== 1) found.push(`capture ${session} has ${ends.length} terminal results`)
    const stored = results.get(session)
    // Its agent was given the door of the first attempt, and has no other.
    if (view?.attempt !== 1) found.push(`capture ${session} had ${view?.attempt} attempts`)
    if (stored === undefined || stored.result.status !== view?.status || stored.result.task_id !== request.task_id) {
      found.push(`capture ${session} is ${view?.status}; the ledger has ${stored?.result.status} of task ${stored?.result.task_id}`)
    }
    const bodies = arrivals.filter(({ body }) => JSON.parse(body).session_id === session)
    if (resultUrl === null && bodies.length > 0) found.push(`capture ${session} was delivered without being asked for`)
    if (resultUrl !== null && bodies.length === 0 && schedule.receiverFaultRate === 0) found.push(`capture ${session} never arrived`)
    if (new Set(bodies.map(({ key, body }) => key + body)).size > 1) found.push(`capture ${session} was delivered in several ways`)
    for (const { url, body } of bodies.slice(0, 1)) {
      if (url !== resultUrl) found.push(`capture ${session} was delivered to ${url}`)
      if (JSON.parse(body).status !== stored?.result.status) found.push(`capture ${session} was delivered with another status`)
    }
  }
  return found
}
