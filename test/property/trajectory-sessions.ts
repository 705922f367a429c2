// Random sessions as agents make them: continuations, retries, branches, rewritten turns, compactions, lost and failed calls.
import fc from 'fast-check'
import type { CallStatus, Delivery, Lineage } from '../../src/contract/call.ts'
import type { ToyCall } from '../unit/trajectory-calls.ts'

const token = fc.integer({ min: 1, max: 4 })
const move = fc.record({
  kind: fc.constantFrom('root', 'continue', 'continue', 'continue', 'retry', 'rewrite', 'same-digest', 'compact'),
  /** Which earlier call the move starts from, as a fraction of them. */
  from: fc.double({ min: 0, max: 0.999, noNaN: true }),
  fresh: fc.array(token, { maxLength: 3 }),
  sampled: fc.array(token, { maxLength: 3 }),
  cut: fc.nat({ max: 3 }),
  status: fc.constantFrom<CallStatus>('ok', 'ok', 'ok', 'ok', 'ok', 'aborted', 'failed'),
  delivery: fc.constantFrom<Delivery>('yes', 'yes', 'yes', 'partial', 'no'),
  hasLogprobs: fc.constantFrom(true, true, true, true, false),
  logprob: fc.double({ min: -5, max: 0, noNaN: true }),
  agent: fc.constantFrom(null, null, 'main', 'again', 'one', 'two'),
  purpose: fc.constantFrom('turn' as const, 'turn' as const, 'compaction' as const, null),
})

const PARENTS: Readonly<Record<string, string | null>> = { main: null, again: null, one: 'main', two: 'one' }

/** Up to twelve calls over four tokens: prefixes collide by chance as well as by descent, within one agent and among several. */
export const sessions: fc.Arbitrary<readonly ToyCall[]> = fc.array(move, { minLength: 1, maxLength: 12 }).map((moves) => {
  const calls: (ToyCall & { readonly digest: string; readonly lineage: Lineage | null })[] = []
  for (const [at, each] of moves.entries()) {
    const { kind, from, fresh, sampled, cut, status, delivery, hasLogprobs, logprob, agent, purpose } = each
    const base = calls[Math.floor(from * calls.length)]
    const whole = base === undefined ? [] : [...base.p, ...base.r]
    const prompts = {
      root: fresh,
      continue: [...whole, ...fresh],
      retry: base?.p ?? fresh,
      rewrite: [...whole.slice(0, -1 - cut), ...fresh],
      'same-digest': [...whole, ...fresh],
      compact: [...whole.slice(0, 1), ...(base?.r ?? []), ...fresh],
    }
    const lineage = agent === null ? null : { agent, parent: PARENTS[agent] ?? null, purpose }
    // A digest is of the agent, too.
    const isAskedAgain = kind === 'same-digest' && base?.lineage?.agent === lineage?.agent
    const digest = isAskedAgain && base !== undefined ? base.digest : `digest-${at}`
    const usable = hasLogprobs || sampled.length === 0
    calls.push({
      id: `c${at}`,
      p: prompts[kind as keyof typeof prompts],
      r: sampled,
      l: usable ? sampled.map(() => Math.fround(logprob)) : null,
      digest,
      lineage,
      record: {
        lineage,
        status,
        delivery,
        digest,
        finishReason: status === 'ok' ? 'stop' : null,
        captureError: usable ? null : { code: 'logprobs-missing', detail: 'none' },
        weightVersion: `w${at % 3}`,
      },
    })
  }
  return calls
})
