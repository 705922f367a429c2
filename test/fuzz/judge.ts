// Whether what came back is what may come back: a known status, the dialect's own shape, and nothing of the machinery inside.
import type { DialectName } from '../../src/contract/call.ts'
import type { Outcome, Reply } from './client/socket.ts'
import { DIALECTS } from './grammar/grammars.ts'
import { readMarks } from './marker.ts'
import type { Plan } from './plan.ts'
import { type Folded, SHAPES, ShapeFault, type Wishes } from './shapes.ts'

/** The column of the closing table. */
export type Column = 'answered' | 'refused' | 'engine fault' | 'cut short' | 'left' | 'wrong'

export type Verdict = {
  readonly column: Column
  /** Null when all is well. */
  readonly problem: string | null
  /** Answers that were read to their end. */
  readonly answers: readonly Folded[]
}

export type Circumstances = {
  /** Requests that this client has under way at once, on one session. */
  readonly atOnce: number
  readonly isLedgerFlaky: boolean
}

const KNOWN_STATUSES = new Set([200, 400, 401, 403, 404, 405, 413, 415, 417, 426, 429, 431, 500, 502, 503, 504])
const LAST_WORD = /\(\d+ times in a row\)/
const OUR_OWN_FAULT = /the gateway failed to serve this call|gateway_error/

export function judge(plan: Plan, outcome: Outcome, given: Circumstances): Verdict {
  switch (outcome.type) {
    case 'left':
      return { column: 'left', problem: null, answers: [] }
    case 'garbled':
      return wrong(`not HTTP: ${outcome.detail}`)
    case 'hung':
      return wrong(`no answer within the deadline; so far: ${describe(outcome.partial)}`)
    case 'closed': {
      // HTTP servers on Node take a half-closed connection for one that is gone.
      if (plan.head?.mayClose === true || plan.behaviour.type === 'half-closes') return { column: 'cut short', problem: null, answers: [] }
      const isStream = outcome.partial?.head.status === 200 && outcome.partial.head.headers.has('transfer-encoding')
      // The one honest end of a chat stream that failed after its head.
      if (isStream && plan.dialect === 'openai-chat' && (mayFail(plan, given) || mayBeRefused(plan)))
        return { column: 'cut short', problem: null, answers: [] }
      return wrong(`the server closed the connection; so far: ${describe(outcome.partial)}`)
    }
    case 'answered':
      return worst(outcome.replies.map((reply) => judgeReply(plan, reply, given)))
  }
}

const wrong = (problem: string): Verdict => ({ column: 'wrong', problem, answers: [] })

function worst(verdicts: readonly Verdict[]): Verdict {
  const [first] = verdicts
  const faulty = verdicts.find(({ problem }) => problem !== null)
  return {
    column: faulty?.column ?? first?.column ?? 'answered',
    problem: faulty?.problem ?? null,
    answers: verdicts.flatMap(({ answers }) => answers),
  }
}

function judgeReply(plan: Plan, reply: Reply, given: Circumstances): Verdict {
  const { status } = reply.head
  try {
    if (!KNOWN_STATUSES.has(status)) return wrong(`status ${status}: ${describe(reply)}`)
    const body = new TextDecoder('utf-8', { fatal: true }).decode(reply.body)
    if (plan.method === 'HEAD')
      return { column: status < 400 ? 'answered' : 'refused', problem: body === '' ? null : 'HEAD with a body', answers: [] }
    const leak = leakOf(plan, body)
    if (leak !== null) return wrong(`${leak}: ${describe(reply)}`)
    return status === 200 ? judgeSuccess(plan, reply, body, given) : judgeFailure(plan, reply, body, given)
  } catch (error) {
    if (error instanceof ShapeFault) return wrong(`${status} ${error.message}`)
    if (error instanceof TypeError) return wrong(`${status} with a body that is no UTF-8`)
    throw error
  }
}

function judgeSuccess(plan: Plan, reply: Reply, body: string, given: Circumstances): Verdict {
  const { expectation } = plan
  const answered = (answers: readonly Folded[] = []): Verdict => ({ column: 'answered', problem: null, answers })
  const shapes = SHAPES[plan.dialect]
  switch (expectation.type) {
    case 'status':
      return expectation.statuses.includes(200)
        ? answered()
        : wrong(`200 where ${expectation.statuses.join(' or ')} was due: ${describe(reply)}`)
    case 'count':
      shapes.count.parse(JSON.parse(body))
      return answered()
    case 'lookup':
      if (expectation.what === 'models' || expectation.what === 'model') parsed(shapes[expectation.what], body, expectation.what)
      return answered()
    case 'answer':
    case 'either':
      return judgeAnswer(plan, reply, body, given)
  }
}

function judgeAnswer(plan: Plan, reply: Reply, body: string, given: Circumstances): Verdict {
  // A mangled path may happen to be another route.
  const dialects = plan.kind === 'misrouted' ? [plan.dialect, ...DIALECTS] : [plan.dialect]
  const contentType = reply.head.headers.get('content-type') ?? ''
  const form = contentType.startsWith('text/event-stream')
    ? 'events'
    : plan.request?.form === 'array' || (plan.dialect === 'google' && body.startsWith('['))
      ? 'array'
      : 'plain'
  if (plan.request !== null && plan.request.form !== form) return wrong(`asked for ${plan.request.form}, got ${contentType}`)
  const wanted = wantsStream(plan)
  if (wanted !== null && wanted !== (form !== 'plain')) return wrong(`stream is ${wanted} and the answer is ${contentType}`)
  let fault: unknown = null
  for (const dialect of dialects) {
    try {
      return { column: 'answered', problem: null, answers: [SHAPES[dialect][form](body, wishesOf(plan))] }
    } catch (error) {
      if (!(error instanceof ShapeFault)) throw error
      fault ??= error
    }
  }
  if (plan.kind === 'misrouted' && isLookup(body)) return { column: 'answered', problem: null, answers: [] }
  // A stream whose head was committed is told there what else would have been a status of its own.
  if (form !== 'plain' && (mayFail(plan, given) || mayBeRefused(plan)) && isToldFailure(plan.dialect, form, body))
    return failed('engine fault')
  throw fault
}

function isToldFailure(dialect: DialectName, form: 'events' | 'array', body: string): boolean {
  const { failedEvents, failedArray } = SHAPES[dialect]
  try {
    if (form === 'events') failedEvents(body)
    else failedArray(body)
    return true
  } catch (error) {
    if (error instanceof ShapeFault) return false
    throw error
  }
}

function judgeFailure(plan: Plan, reply: Reply, body: string, given: Circumstances): Verdict {
  const { status } = reply.head
  const { expectation } = plan
  if (OUR_OWN_FAULT.test(body)) return wrong(`a fault of the gateway: ${describe(reply)}`)
  // Which dialect is spoken where no route is, is a guess; that it is one is not.
  const dialects = plan.kind === 'misrouted' || plan.kind === 'odd-head' ? DIALECTS : [plan.dialect]
  if (!dialects.some((dialect) => isError(dialect, body)))
    parsed(SHAPES[plan.dialect].error, body, `${plan.dialect} error with status ${status}`)
  if (!(reply.head.headers.get('content-type') ?? '').startsWith('application/json'))
    return wrong(`an error of type ${reply.head.headers.get('content-type')}`)
  if (status >= 500)
    return mayFail(plan, given) ? failed('engine fault') : wrong(`${status} without a fault of the engine: ${describe(reply)}`)
  const isWished = wishedFaults(plan).some((name) => name === `http-${status}`)
  if (status === 429 && !isWished && given.atOnce < 5) return wrong(`429 without a crowd: ${describe(reply)}`)
  if (status === 429 || isWished) return failed('engine fault')
  // What keeps failing is told at last with a status that no client takes for a passing one.
  if (status === 400 && mayFail(plan, given) && LAST_WORD.test(body)) return failed('engine fault')
  switch (expectation.type) {
    case 'status':
      return expectation.statuses.includes(status)
        ? failed('refused')
        : wrong(`${status} where ${expectation.statuses.join(' or ')} was due: ${describe(reply)}`)
    case 'answer':
    case 'count':
      return expectation.isRefusable ? failed('refused') : wrong(`a valid request was refused: ${describe(reply)}`)
    case 'lookup':
      return wrong(`a lookup was refused: ${describe(reply)}`)
    case 'either':
      return failed('refused')
  }
}

const failed = (column: Column): Verdict => ({ column, problem: null, answers: [] })

function parsed(schema: { safeParse(value: unknown): { success: boolean; error?: unknown } }, body: string, what: string): void {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    throw new ShapeFault(`${what} is not JSON: ${body.slice(0, 200)}`)
  }
  const { success } = schema.safeParse(value)
  if (!success) throw new ShapeFault(`no ${what}: ${body.slice(0, 300)}`)
}

function isError(dialect: DialectName, body: string): boolean {
  try {
    return SHAPES[dialect].error.safeParse(JSON.parse(body)).success
  } catch {
    return false
  }
}

function isLookup(body: string): boolean {
  const value: unknown = JSON.parse(body)
  const isModels = DIALECTS.some(
    (dialect) => SHAPES[dialect].models.safeParse(value).success || SHAPES[dialect].model.safeParse(value).success,
  )
  return isModels || (typeof value === 'object' && value !== null && 'service' in value)
}

/** True when an engine was made to fail this request, or the ledger may have refused its record. */
function mayFail(plan: Plan, { isLedgerFlaky }: Circumstances): boolean {
  return isLedgerFlaky || wishedFaults(plan).length > 0
}

function mayBeRefused({ expectation }: Plan): boolean {
  return expectation.type === 'either' || (expectation.type === 'answer' && expectation.isRefusable)
}

function wishedFaults(plan: Plan): readonly string[] {
  const inBody = readMarks(plan.json ?? plan.body?.toString() ?? '').flatMap(({ fault }) => fault?.name ?? [])
  return plan.wish.fault === null ? inBody : [plan.wish.fault.name, ...inBody]
}

/** Null where the request itself leaves it open, or is not what it seems. */
function wantsStream(plan: Plan): boolean | null {
  if (plan.json === null || plan.kind === 'misrouted') return null
  if (plan.dialect === 'google') return plan.path.endsWith(':streamGenerateContent')
  const body: unknown = JSON.parse(plan.json)
  return typeof body === 'object' && body !== null && 'stream' in body ? body.stream === true : false
}

function wishesOf(plan: Plan): Wishes {
  const text = plan.json
  const body: unknown = text === null ? null : JSON.parse(text)
  if (typeof body !== 'object' || body === null) return { logprobs: null, usageChunk: null }
  const options = 'stream_options' in body ? body.stream_options : null
  return {
    // Google's wish may stand in several places.
    logprobs: plan.dialect === 'google' ? null : 'logprobs' in body && body.logprobs === true,
    usageChunk: typeof options === 'object' && options !== null && 'include_usage' in options && options.include_usage === true,
  }
}

const ENGINE_FIELDS =
  /"(?:token_ids|prompt_token_ids|input_token_ids|output_ids|output_token_logprobs|meta_info|kv_transfer_params|prompt_logprobs|weight_version|origin)"\s*:/
const INSIDES = /node_modules|file:\/\/\/|\.[jt]s:\d+|\n\s+at |\bat [\w.<>]+ \(|<html|<!doctype/i

/** What of the machinery shows; words that the client itself said may come back to it. */
function leakOf(plan: Plan, body: string): string | null {
  const asked = plan.json ?? plan.body?.toString() ?? ''
  const shown = (pattern: RegExp): string | null => {
    const found = pattern.exec(body)?.[0] ?? null
    return found === null || asked.includes(found) ? null : found
  }
  const field = shown(ENGINE_FIELDS)
  if (field !== null) return `a field of the engine's (${field})`
  const inside = shown(INSIDES)
  return inside === null ? null : `insides of the server (${JSON.stringify(inside)})`
}

function describe(reply: Reply | null): string {
  if (reply === null) return 'nothing'
  const body = reply.body.toString()
  return `${reply.head.status} ${body.length > 600 ? `${body.slice(0, 300)} … ${body.slice(-300)}` : body}`
}
