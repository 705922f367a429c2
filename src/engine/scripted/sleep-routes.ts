// vLLM's sleep, which frees the memory of the weights for a trainer: put to sleep, woken, and asked.
import { ok, type Route } from '../serve/route.ts'

export type Sleep = {
  isAsleep(): boolean
  setAsleep(isAsleep: boolean): void
}

export function openSleep(): Sleep {
  let isAsleep = false
  return {
    isAsleep: () => isAsleep,
    setAsleep(sleeps) {
      isAsleep = sleeps
    },
  }
}

export function sleepRoutes(sleep: Sleep): Readonly<Record<string, Route>> {
  return {
    'POST /sleep': () => {
      sleep.setAsleep(true)
      return ok({})
    },
    'POST /wake_up': () => {
      sleep.setAsleep(false)
      return ok({})
    },
    'GET /is_sleeping': () => ok({ is_sleeping: sleep.isAsleep() }),
  }
}
