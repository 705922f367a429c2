// The faults desk over HTTP, which no real engine has: what can go wrong, and what does from now on.
import { ok, type Route } from '../serve/route.ts'
import { fromHere } from '../serve/routes.ts'
import { FAULT_NAMES, FAULTS, type FaultDesk, faultPlanSchema } from './faults.ts'

/** Faults are for tests on this host. */
const WHAT = 'faults can be set'

export function faultRoutes(faults: FaultDesk): Readonly<Record<string, Route>> {
  return {
    'GET /scripted/faults': fromHere(WHAT, () =>
      ok({ active: faults.plans(), menu: FAULT_NAMES.map((fault) => ({ fault, doc: FAULTS[fault].doc })) }),
    ),
    'POST /scripted/faults': fromHere(WHAT, ({ body }) => {
      const parsed = faultPlanSchema.safeParse(body)
      if (!parsed.success) {
        const issue = parsed.error.issues[0]
        return { status: 400, json: { error: `${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not valid'}` } }
      }
      faults.set(parsed.data)
      return ok({ active: faults.plans() })
    }),
    'DELETE /scripted/faults': fromHere(WHAT, () => {
      faults.set(null)
      return ok({ active: [] })
    }),
  }
}
