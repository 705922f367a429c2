// The drift report as a person reads it in a terminal. What a model or an agent wrote is quoted, so that it steers no terminal.
import { unreachable } from '../kernel/unreachable.ts'
import type { DriftReport, ForkCause, HarnessReport } from './drift-report.ts'
import type { Remedy } from './remedies.ts'

/** Ids of one side of a window, as far as they are shown. */
const MAX_SHOWN_IDS = 8
const MAX_ERROR_CHARACTERS = 400

export function describeDrift(report: DriftReport): string {
  const { engine, harnesses, notes } = report
  const lines = [
    `engine    ${engine.kind} at ${engine.url}, ${engine.model === null ? 'model' : plain(engine.model)}${described([
      engine.max_model_len === null ? null : `${engine.max_model_len} tokens`,
      engine.logprob_mode === 'unknown' ? null : `${engine.logprob_mode} logprobs`,
    ])}`,
    ...notes.map((note) => `note      ${plain(note)}`),
    ...harnesses.flatMap((harness) => ['', ...describeHarness(harness, engine.model)]),
    '',
    report.whole ? 'Token chains are whole.' : verdictOf(harnesses),
  ]
  return `${lines.join('\n')}\n`
}

function describeHarness(harness: HarnessReport, model: string | null): readonly string[] {
  const { sessions, outcomes, calls, trained_calls: trained, rows, merge_ratio: ratio, best_merge_ratio: best } = harness
  const ended = Object.entries(outcomes).map(([outcome, count]) => `${count} ${outcome}`)
  const merged =
    ratio === null
      ? 'nothing can be trained'
      : `${trained} trained calls in ${rows} rows: merge ratio ${rounded(ratio)}${best === null || best <= ratio ? '' : ` (${rounded(best)} if nothing broke)`}`
  const own = Object.entries(harness.own_conversations).map(
    ([kind, count]) => `${count} ${kind === 'aux' ? 'side calls' : 'of sub-agents'}`,
  )
  return [
    `${plain(harness.harness)}: ${stateOf(harness)}`,
    `  ${counted(sessions, 'session')} (${ended.join(', ')}), ${calls} calls; ${merged}`,
    ...(own.length === 0 ? [] : [`  conversations of their own, as they should be: ${own.join(', ')}`]),
    ...(harness.unexplained_rows === 0
      ? []
      : [`  rows that nothing explains, such as branches of a conversation: ${harness.unexplained_rows}`]),
    ...harness.failed.map(
      ({ session_id, task, outcome, error }) =>
        `  ${plain(session_id)}  ${plain(task)} ended ${outcome}${error === null ? '' : `: ${plain(error).slice(0, MAX_ERROR_CHARACTERS)}`}`,
    ),
    ...harness.findings.map(({ code, sessions: count, detail }) => `  finding ${code} in ${counted(count, 'session')}: ${plain(detail)}`),
    ...harness.forks.flatMap((fork) => ['', ...describeFork(fork, model).map((line) => `  ${line}`)]),
  ]
}

function stateOf({ whole, forks, sessions_with_turns: withTurns }: HarnessReport): string {
  if (whole) return 'whole'
  return forks.length === 0 && withTurns === 0 ? 'NOT SHOWN: no session made a second call, so there was no chain to break' : 'NOT WHOLE'
}

function describeFork(fork: ForkCause, model: string | null): readonly string[] {
  const { example, remedies } = fork
  const place = example.index === null ? '' : `, at token ${example.index} of the later prompt`
  return [
    `${fork.class} ${fork.name}, ${fork.count}× in ${counted(fork.sessions, 'session')}${fork.splits_row ? ', each begins a new row' : ''}`,
    `  ${plain(fork.reason)}`,
    `  for example ${plain(example.session_id)}, task ${plain(example.task)}${place}`,
    ...describeWindow(fork),
    ...(remedies.length === 0
      ? ['  no setting is known to mend this; the window shows what differs']
      : remedies.map((remedy) => `  mend: ${describeRemedy(remedy, model)}`)),
  ]
}

/** Where a break lies in what the earlier call was prompted with, nothing of it was sampled. */
const IN_PROMPT: ReadonlySet<ForkCause['class']> = new Set(['D8', 'D9', 'D11', 'D17'])

function describeWindow({ class: driftClass, example: { window } }: ForkCause): readonly string[] {
  if (window === null) return []
  const sides = [
    ['both', window.common],
    [IN_PROMPT.has(driftClass) ? 'was sent' : 'was sampled', window.earlier],
    ['came back', window.later],
  ] as const
  const ids = sides.map(([, side]) => (side.ids.length === 0 ? '(nothing)' : side.ids.slice(0, MAX_SHOWN_IDS).join(' ')))
  const width = Math.max(...ids.map((text) => text.length))
  return sides.map(([name, side], at) =>
    `    ${name.padEnd(11)}  ${(ids[at] ?? '').padEnd(width)}  ${side.text === null || side.ids.length === 0 ? '' : quoted(side.text)}`.trimEnd(),
  )
}

export function describeRemedy({ where, key, says }: Remedy, model: string | null): string {
  switch (where) {
    case 'agent':
      return `in the program: ${says}`
    case 'engine':
      return `engine ${key}: ${says}`
    case 'polar.yaml':
      return `polar_node.${key?.replace('*', JSON.stringify(plain(model ?? '*')))} in polar.yaml: ${says}`
    case 'agent.settings':
    case 'builder.config':
      return `${where}.${key}: ${says}`
    default:
      return unreachable(where)
  }
}

function verdictOf(harnesses: readonly HarnessReport[]): string {
  const parts = [
    harnesses.some(({ forks }) => forks.length > 0) ? 'Token chains break: see what would mend it.' : null,
    harnesses.some(({ failed }) => failed.length > 0) ? 'Not every session did its work.' : null,
    harnesses.some(({ rows }) => rows === 0) ? 'Nothing can be trained.' : null,
    harnesses.some(({ sessions_with_turns: withTurns }) => withTurns === 0) ? 'Not every harness had a chain to break.' : null,
  ]
  return parts.filter((part) => part !== null).join(' ')
}

/** Text of a model in quotes: no control character, no mark that changes the direction of what follows, no line break. */
export function quoted(text: string): string {
  return escaped(JSON.stringify(text))
}

/** The same without quotes, on one line, for words of ours that may hold an agent's or an engine's. */
export function plain(text: string): string {
  return escaped(text.replaceAll(/\s+/g, ' ').trim())
}

function escaped(text: string): string {
  return text
    .toWellFormed()
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, '0')}`)
}

function described(facts: readonly (string | null)[]): string {
  const known = facts.filter((fact) => fact !== null)
  return known.length === 0 ? '' : ` (${known.join(', ')})`
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
const rounded = (ratio: number): string => String(Math.round(ratio * 100) / 100)
