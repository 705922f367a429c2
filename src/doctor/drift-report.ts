// What a few sessions tell of a harness and a model: how whole the token chains are, what broke them, and what would mend it.
import type { DriftClass } from '../trajectory/drift.ts'
import type { DriftWindow, Edge, SessionReading } from './drift-results.ts'
import { DRIFT_NAMES, type Remedy, remediesFor, type ServerKind } from './remedies.ts'
import type { WindowText } from './window-text.ts'

/** The engine as the node found it. */
export type EngineFacts = {
  readonly url: string
  readonly kind: ServerKind
  /** The name it serves the policy under; null when it does not say. */
  readonly model: string | null
  readonly logprob_mode: string
  readonly max_model_len: number | null
}

export type HarnessRun = { readonly harness: string; readonly sessions: readonly SessionReading[] }

type Side = { readonly ids: readonly number[]; readonly text: string | null }

export type ForkCause = {
  readonly class: DriftClass
  readonly name: string
  readonly reason: string
  /** Breaks of this kind, and the sessions that have one. */
  readonly count: number
  readonly sessions: number
  /** True when each of them begins a row of its own; a turn that was cut, or asked for twice, leaves the row whole. */
  readonly splits_row: boolean
  /** The first one that shows a window, or else the first. */
  readonly example: {
    readonly session_id: string
    readonly task: string
    readonly call_id: string | null
    readonly of: string | null
    /** In the later prompt; null where no two sequences differ. */
    readonly index: number | null
    readonly window: { readonly start: number; readonly common: Side; readonly earlier: Side; readonly later: Side } | null
  }
  readonly remedies: readonly Remedy[]
}

export type HarnessReport = {
  readonly harness: string
  readonly sessions: number
  readonly outcomes: Readonly<Record<string, number>>
  /** Those with more than one call: the others have no chain that could break. */
  readonly sessions_with_turns: number
  readonly calls: number
  readonly trained_calls: number
  readonly rows: number
  /** Trained calls per trained row; null when nothing is trained. */
  readonly merge_ratio: number | null
  /** What it would be if no break had begun a row. */
  readonly best_merge_ratio: number | null
  /** There were chains to break, every session did its work, and nothing broke a chain, cut a turn or was asked for twice. */
  readonly whole: boolean
  readonly forks: readonly ForkCause[]
  /** Rows and calls that stand alone because they should: sub-agents and side calls. */
  readonly own_conversations: Readonly<Record<string, number>>
  /** Rows that no break, sub-agent or side call explains: branches of a conversation, or conversations without a known relation. */
  readonly unexplained_rows: number
  readonly failed: readonly {
    readonly session_id: string
    readonly task: string
    readonly outcome: string
    readonly error: string | null
  }[]
  readonly findings: readonly { readonly code: string; readonly sessions: number; readonly detail: string }[]
}

export type DriftReport = {
  /** Raised when a field changes its meaning. */
  readonly version: 1
  readonly engine: EngineFacts
  /** Whether the chains of every harness are whole. */
  readonly whole: boolean
  /** What the reader must know to read the rest, such as why windows have no text. */
  readonly notes: readonly string[]
  readonly harnesses: readonly HarnessReport[]
}

/** Sessions end so when the agent has done what it could; anything else says nothing of drift. */
const GOOD_OUTCOME = 'completed'
/** Edges that begin a row of their own. */
const SPLITTING: ReadonlySet<Edge['kind']> = new Set(['rewrites', 'compaction_of'])
/** What the forks tell already. */
const TOLD_BY_FORKS: ReadonlySet<string> = new Set(['low_merge_ratio', 'truncated_turn'])

/** `texts`: what the windows of `exampleWindows` say, as far as they could be read. */
export function reportDrift(
  engine: EngineFacts,
  runs: readonly HarnessRun[],
  texts: ReadonlyMap<DriftWindow, WindowText>,
  notes: readonly string[],
): DriftReport {
  const harnesses = runs.map((run) => reportHarness(run, engine, texts))
  return { version: 1, engine, whole: harnesses.every(({ whole }) => whole), notes, harnesses }
}

/** The windows that the report will show. */
export function exampleWindows(runs: readonly HarnessRun[]): readonly DriftWindow[] {
  return runs.flatMap(({ sessions }) => causesOf(sessions)).flatMap(({ example }) => example.edge.drift?.window ?? [])
}

function reportHarness({ harness, sessions }: HarnessRun, engine: EngineFacts, texts: ReadonlyMap<DriftWindow, WindowText>): HarnessReport {
  const causes = causesOf(sessions)
  const sum = (read: (session: SessionReading) => number) => sessions.reduce((total, session) => total + read(session), 0)
  const [trained, rows] = [sum(({ trainedCalls }) => trainedCalls), sum((session) => session.rows)]
  const splits = causes.reduce((total, { count, splitsRow }) => total + (splitsRow ? count : 0), 0)
  const unsplit = Math.max(sessions.filter((session) => session.rows > 0).length, rows - splits)
  const withTurns = sessions.filter(({ calls }) => calls > 1).length
  const failed = sessions.filter(({ outcome }) => outcome !== GOOD_OUTCOME)
  return {
    harness,
    sessions: sessions.length,
    outcomes: tally(sessions.map(({ outcome }) => outcome)),
    sessions_with_turns: withTurns,
    calls: sum(({ calls }) => calls),
    trained_calls: trained,
    rows,
    merge_ratio: rows === 0 ? null : trained / rows,
    best_merge_ratio: rows === 0 ? null : trained / unsplit,
    whole: failed.length === 0 && causes.length === 0 && rows > 0 && withTurns > 0,
    forks: causes.map((cause) => forkOf(cause, harness, engine, texts)),
    own_conversations: tally(
      sessions.flatMap(({ edges }) => edges.flatMap(({ kind }) => (kind === 'subagent_of' || kind === 'aux' ? [kind] : []))),
    ),
    unexplained_rows: sum(unexplainedRows),
    failed: failed.map(({ session, task, outcome, error }) => ({ session_id: session, task, outcome, error })),
    findings: findingsOf(sessions),
  }
}

function unexplainedRows({ rows, edges }: SessionReading): number {
  const begun = edges.filter(({ kind }) => SPLITTING.has(kind) || kind === 'subagent_of' || kind === 'aux').length
  return Math.max(0, rows - 1 - begun)
}

type Found = { readonly session: SessionReading; readonly edge: Edge }
type Cause = {
  readonly class: DriftClass
  readonly reason: string
  readonly count: number
  readonly sessions: number
  readonly splitsRow: boolean
  readonly example: Found
}

/** The most frequent first; what is alike in class, reason and effect is one cause. */
function causesOf(sessions: readonly SessionReading[]): readonly Cause[] {
  const groups = new Map<string, Found[]>()
  for (const session of sessions) {
    for (const edge of session.edges) {
      if (edge.drift == null) continue
      const key = JSON.stringify([edge.drift.class, edge.drift.reason, SPLITTING.has(edge.kind)])
      const group = groups.get(key) ?? []
      group.push({ session, edge })
      groups.set(key, group)
    }
  }
  return [...groups.values()]
    .flatMap((group): Cause[] => {
      const example = group.find(({ edge }) => edge.drift?.window != null) ?? group[0]
      if (example?.edge.drift == null) return []
      const { class: driftClass, reason } = example.edge.drift
      const sessionsWithIt = new Set(group.map(({ session }) => session.session)).size
      return [
        { class: driftClass, reason, count: group.length, sessions: sessionsWithIt, splitsRow: SPLITTING.has(example.edge.kind), example },
      ]
    })
    .toSorted((a, b) => b.count - a.count)
}

function forkOf(cause: Cause, harness: string, engine: EngineFacts, texts: ReadonlyMap<DriftWindow, WindowText>): ForkCause {
  const { session, edge } = cause.example
  const window = edge.drift?.window ?? null
  const text = window === null ? null : (texts.get(window) ?? null)
  return {
    class: cause.class,
    name: DRIFT_NAMES[cause.class],
    reason: cause.reason,
    count: cause.count,
    sessions: cause.sessions,
    splits_row: cause.splitsRow,
    example: {
      session_id: session.session,
      task: session.task,
      call_id: edge.call_id,
      of: edge.of,
      index: edge.drift?.index ?? null,
      window:
        window === null
          ? null
          : {
              start: window.start,
              common: { ids: window.common, text: text?.common ?? null },
              earlier: { ids: window.earlier, text: text?.earlier ?? null },
              later: { ids: window.later, text: text?.later ?? null },
            },
    },
    remedies: remediesFor({
      class: cause.class,
      reason: cause.reason,
      harness,
      engine: engine.kind,
      lostText: text === null ? null : lostText(text),
    }),
  }
}

/** Both sides may have the tag that opens a thought, of which one goes on otherwise. */
function lostText({ common, earlier }: WindowText): string {
  return (/<think>\s*$/.exec(common)?.[0] ?? '') + earlier
}

function findingsOf(sessions: readonly SessionReading[]): HarnessReport['findings'] {
  const found = new Map<string, { readonly code: string; readonly sessions: number; readonly detail: string }>()
  for (const { code, detail } of sessions.flatMap(({ findings }) => findings)) {
    if (TOLD_BY_FORKS.has(code)) continue
    const before = found.get(code)
    found.set(code, { code, sessions: (before?.sessions ?? 0) + 1, detail: before?.detail ?? detail })
  }
  return [...found.values()]
}

function tally(names: readonly string[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}
