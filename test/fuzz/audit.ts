// The books of one session compared: what engines did, what was recorded, what clients were told. Each says the same or it is a problem.
import { isDeepStrictEqual } from 'node:util'
import type { CallRecord } from '../../src/contract/call.ts'
import { callHex } from '../../src/contract/ids.ts'
import type { EngineRequest } from '../../src/engine/scripted/request-log.ts'
import type { SealedCalls } from '../../src/proxy/boundary.ts'
import { isObject, parseObject } from '../../src/proxy/json.ts'
import { type ReadCall, readCalls } from '../../src/tokens/reader.ts'
import { wholeGenerations } from '../lib/whole-generations.ts'
import type { Plan } from './plan.ts'
import type { Folded } from './shapes.ts'

/** An answer that a client read to its end. */
export type AuditedAnswer = {
  readonly plan: Plan
  readonly folded: Folded
  /** The id of the answer that the request returned in its history. */
  readonly continues: string | null
}

export type Books = {
  readonly sealed: SealedCalls
  readonly records: readonly CallRecord[]
  readonly refused: readonly string[]
  readonly engineRequests: readonly EngineRequest[]
  readonly answers: readonly AuditedAnswer[]
}

export function audit(books: Books): readonly string[] {
  return [...auditRecords(books), ...auditGenerations(books), ...auditAnswers(books)]
}

/** The ledger was told of every call, last of all what the sealed session says of it. */
function auditRecords({ sealed, records, refused }: Books): readonly string[] {
  const problems: string[] = []
  const told = new Map(records.map((record) => [String(record.id), record]))
  for (const [index, call] of sealed.calls.entries()) {
    if (refused.includes(call.id)) continue
    const record = told.get(call.id)
    if (record === undefined) problems.push(`call ${call.id} was never told to the ledger`)
    else if (!isDeepStrictEqual(record, call)) problems.push(`call ${call.id} (${index}) is not as the ledger was told last`)
  }
  const sequences = sealed.calls.map(({ sequence }) => sequence).sort((a, b) => a - b)
  if (sequences.some((sequence, index) => sequence !== index)) problems.push(`sequences are ${sequences.join(' ')}`)
  if (new Set(sealed.calls.map(({ id }) => id)).size !== sealed.calls.length) problems.push('two calls have one id')
  for (const record of records) if (!sealed.calls.some(({ id }) => id === record.id)) problems.push(`record ${record.id} is of no call`)
  return problems
}

/** What a prompt is known by on both sides. */
type Group = { readonly calls: { readonly call: CallRecord; readonly tokens: ReadCall | undefined }[]; readonly requests: EngineRequest[] }

function auditGenerations({ sealed, engineRequests }: Books): readonly string[] {
  const groups = new Map<string, Group>()
  const groupOf = (key: string): Group => {
    const group = groups.get(key) ?? { calls: [], requests: [] }
    groups.set(key, group)
    return group
  }
  const tokens = readCalls(sealed.tokens)
  for (const [index, call] of sealed.calls.entries()) {
    const messages = call.promptMessages.map((at): unknown => JSON.parse(sealed.messages[at] ?? 'null'))
    groupOf(keyOf(messages)).calls.push({ call, tokens: tokens[index] })
  }
  for (const request of wholeGenerations(engineRequests))
    groupOf(keyOf(isObject(request.body) ? request.body.messages : null)).requests.push(request)
  return [...groups.values()].flatMap(auditGroup)
}

/** The messages as text. An engine that refused calls whose arguments do not parse is shown empty ones: such arguments do not count. */
function keyOf(messages: unknown): string {
  return JSON.stringify(messages, (name, value: unknown) =>
    name === 'arguments' && typeof value === 'string' && value !== '' && parseObject(value) === null ? '{}' : value,
  )
}

function auditGroup({ calls, requests }: Group): readonly string[] {
  const named = calls.map(({ call }) => `${call.id} ${call.status}`).join(', ')
  if (calls.length === 0) return [`${requests.length} generations without a record: ${JSON.stringify(requests[0]?.body).slice(0, 500)}`]
  const ranges = calls.map(({ call }) => sendsOf(call))
  const fewest = ranges.reduce((sum, [low]) => sum + low, 0)
  const most = ranges.reduce((sum, [, high]) => sum + high, 0)
  if (requests.length < fewest || requests.length > most) {
    const faults = requests.map(({ fault, status }) => `${fault ?? 'sound'} ${status}`).join(', ')
    return [
      `${requests.length} generations (${faults}) for ${named}, which account for ${fewest} to ${most}: ${JSON.stringify(calls[0]?.call.diagnostics)}`,
    ]
  }
  const problems: string[] = []
  // One that broke off, or was given up, may have sampled what the next one did: with a seed they are alike.
  const left = requests.toSorted((one, other) => Number(one.fault !== null) - Number(other.fault !== null))
  for (const { call, tokens } of calls) {
    if (call.status !== 'ok') continue
    const at = left.findIndex((request) => isThatOf(request, call, tokens))
    if (at === -1)
      problems.push(`call ${call.id} has tokens that no engine sampled for its prompt (${call.captureError?.code ?? 'no capture error'})`)
    else left.splice(at, 1)
  }
  const sound = left.filter((request) => request.fault === null && request.status === 200 && !request.cancelled)
  const unanswered = calls.filter(({ call }) => call.status !== 'ok').length
  if (sound.length > unanswered) problems.push(`${sound.length} sound generations became no answer; calls: ${named}`)
  return problems
}

/** Between how many and how many generations the record accounts for. */
function sendsOf({ status, diagnostics }: CallRecord): readonly [number, number] {
  const repeats = diagnostics.filter(({ code }) => /^(?:generation-aborted|replica-unreachable|arguments-replaced)$/.test(code)).length
  // A budget is cut before it is sent, or after the engine refused it.
  const clamps = diagnostics.filter(({ code }) => code === 'max-tokens-clamped').length
  switch (status) {
    case 'ok':
      return [repeats + 1, repeats + 1 + clamps]
    case 'aborted':
      return [repeats, repeats + clamps]
    case 'failed':
      return [repeats, repeats + 1 + clamps]
    case 'cancelled':
      return [0, repeats + 1 + clamps]
  }
}

const HIDING = new Set(['missing-prompt-ids', 'missing-token-ids', 'unequal-lengths', 'nan-logprob', 'null-logprob'])

function isThatOf(request: EngineRequest, { captureError }: CallRecord, tokens: ReadCall | undefined): boolean {
  if (request.status !== 200) return false
  // Nothing was sampled: an answer that is empty and was cut before its end token.
  if (captureError !== null)
    return HIDING.has(request.fault ?? '') || (captureError.code === 'sampled-empty' && request.sampledIds.length === 0)
  return (
    tokens !== undefined &&
    isSame(tokens.promptIds, request.promptIds) &&
    isSame(tokens.sampledIds, request.sampledIds) &&
    isSame(tokens.logprobs ?? [], Float32Array.from(request.logprobs.map(Number)))
  )
}

function isSame(left: ArrayLike<number>, right: ArrayLike<number>): boolean {
  return left.length === right.length && Array.from(left).every((value, index) => value === right[index])
}

/** What clients read is what the records say was answered, and no answer was given twice. */
function auditAnswers({ sealed, answers }: Books): readonly string[] {
  const problems: string[] = []
  const seen = new Set<string>()
  for (const { plan, folded, continues } of answers) {
    const call = callOf(sealed, folded.id)
    if (call === undefined) {
      problems.push(`request ${plan.index}: the answer ${folded.id} is of no call`)
      continue
    }
    if (seen.has(call.id)) problems.push(`request ${plan.index}: call ${call.id} was answered twice`)
    seen.add(call.id)
    if (call.status !== 'ok' || call.delivery !== 'yes')
      problems.push(`request ${plan.index}: answered in full, recorded as ${call.status}, delivered ${call.delivery}`)
    if (folded.model !== call.modelRequested)
      problems.push(`request ${plan.index}: the answer is of model ${folded.model}, asked was ${call.modelRequested}`)
    const difference = differenceOf(folded, sealed, call)
    if (difference !== null) problems.push(`request ${plan.index}: ${difference}`)
    const parent = continues === null ? undefined : callOf(sealed, continues)
    if (parent !== undefined && !isReturned(sealed, parent, call)) {
      const sampled = sealed.messages[parent.responseMessage ?? -1]
      problems.push(
        `request ${plan.index}: the answer ${parent.id} did not go back to the engine as it was sampled: ${sampled?.slice(0, 1_000)}`,
      )
    }
  }
  return problems
}

/** Word for word; answers that look alike to a client that keeps no signature may stand for one another. */
function isReturned(sealed: SealedCalls, parent: CallRecord, call: CallRecord): boolean {
  const said = visible(sealed, parent)
  return call.promptMessages.some((at) => sealed.calls.some((other) => other.responseMessage === at && visible(sealed, other) === said))
}

function visible({ messages }: SealedCalls, { responseMessage }: CallRecord): string {
  const said: unknown = JSON.parse(messages[responseMessage ?? -1] ?? 'null')
  if (!isObject(said)) return ''
  const text = typeof said.content === 'string' && said.content.trim() !== '' ? said.content : ''
  const calls = Array.isArray(said.tool_calls) ? said.tool_calls.map((call) => call.function) : []
  return JSON.stringify([text, calls])
}

function callOf({ calls }: SealedCalls, id: string): CallRecord | undefined {
  return calls.find((call) => id.includes(callHex(call.id)))
}

function differenceOf(folded: Folded, sealed: SealedCalls, call: CallRecord): string | null {
  const said: unknown = JSON.parse(sealed.messages[call.responseMessage ?? -1] ?? 'null')
  if (!isObject(said)) return 'the record has no answer'
  if (folded.text !== (said.content ?? ''))
    return `the text differs: ${JSON.stringify(folded.text).slice(0, 200)} from ${JSON.stringify(said.content).slice(0, 200)}`
  const reasoning = said.reasoning_content ?? ''
  if (folded.reasoning !== null && folded.reasoning !== reasoning)
    return `the reasoning differs: ${JSON.stringify(folded.reasoning).slice(0, 200)}`
  const calls = Array.isArray(said.tool_calls) ? said.tool_calls : []
  if (calls.length !== folded.calls.length) return `${folded.calls.length} calls were told, ${calls.length} recorded`
  for (const [index, { name, given }] of folded.calls.entries()) {
    const sampled = calls[index].function
    if (name !== null && name !== sampled.name) return `call ${index} is named ${name}, recorded ${sampled.name}`
    if (given === null) continue
    if ('text' in given && given.text !== sampled.arguments) return `the arguments of call ${index} differ`
    if ('value' in given && !isMeantBy(given.value, sampled.arguments)) {
      return `the arguments of call ${index} differ: told ${JSON.stringify(given.value).slice(0, 300)}, sampled ${sampled.arguments.slice(0, 300)}`
    }
  }
  return null
}

/** What is no object cannot be told as one: the dialect then has a form of its own for it. */
function isMeantBy(value: unknown, text: string): boolean {
  try {
    const sampled: unknown = JSON.parse(text)
    return !isObject(sampled) || JSON.stringify(sampled) === JSON.stringify(value)
  } catch {
    return true
  }
}
