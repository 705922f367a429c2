// A session's marks and durations as Polar's SessionTiming: milliseconds, keys ending in `_ms`.
import type { Common } from './phases.ts'

export function timingOf(state: Common, nowMs: number): Record<string, number> {
  const at = (name: string): number | undefined => state.marks[name]
  const between = (from: string, to: string): number | undefined => {
    const [a, b] = [at(from), at(to)]
    return a === undefined || b === undefined ? undefined : b - a
  }
  const opened = at('opened') ?? nowMs
  const timing: Record<string, number | undefined> = {
    register_to_init_queue_ms: state.spec.registeredMsAgo,
    init_ms: between('initBegan', 'ready'),
    container_start_ms: between('initBegan', 'sandboxStarted'),
    ready_queue_ms: between('ready', 'runBegan'),
    run_ms: between('runBegan', 'agentGone'),
    agent_exec_ms: between('runBegan', 'agentEnded'),
    postrun_queue_ms: between('postRunQueued', 'postRunBegan'),
    postrun_ms: at('postRunBegan') === undefined ? undefined : nowMs - (at('postRunBegan') ?? nowMs),
    e2e_ms: nowMs - opened + state.spec.registeredMsAgo,
    ...state.durations,
  }
  return Object.fromEntries(Object.entries(timing).flatMap(([key, value]) => (value === undefined ? [] : [[key, Math.max(0, value)]])))
}
