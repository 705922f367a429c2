// Which agent of its session made a call: what agent CLIs say of it in the headers of their requests.
import type { Lineage } from '../contract/call.ts'
import { type Headers, headerOf } from './detect.ts'
import { parseObject } from './json.ts'

type Client = {
  /** Sent with every call, and by no other client. */
  readonly mark: string
  /** Headers that name the agent and who spawned it: of each list the first that is there. */
  readonly agent: readonly string[]
  readonly parent: readonly string[]
  readonly purposeOf: (headers: Headers) => Lineage['purpose']
}

const unsaid = (): null => null

const CLIENTS: readonly Client[] = [
  // Codex: each agent is a thread.
  { mark: 'x-codex-turn-metadata', agent: ['thread-id'], parent: ['x-codex-parent-thread-id'], purposeOf: codexPurpose },
  // Claude Code: the first agent has the session's name, and is named by no header when it spawns one.
  {
    mark: 'x-claude-code-session-id',
    agent: ['x-claude-code-agent-id', 'x-claude-code-session-id'],
    parent: ['x-claude-code-parent-agent-id', 'x-claude-code-session-id'],
    purposeOf: unsaid,
  },
  // OpenCode: each agent is a session of its own.
  { mark: 'x-session-affinity', agent: ['x-session-id'], parent: ['x-parent-session-id'], purposeOf: unsaid },
]

/** Null for a client that is not known to tell its agents apart. */
export function lineageOf(headers: Headers): Lineage | null {
  const client = CLIENTS.find(({ mark }) => headerOf(headers, mark) !== null)
  const agent = client === undefined ? null : nameIn(headers, client.agent)
  if (client === undefined || agent === null) return null
  const parent = nameIn(headers, client.parent)
  return { agent, parent: parent === agent ? null : parent, purpose: client.purposeOf(headers) }
}

/** Names are identifiers; whatever else stands there is none, and no record is made large by it. */
const NAME = /^[\w.:/-]{1,128}$/

function nameIn(headers: Headers, from: readonly string[]): string | null {
  const name = from.map((header) => headerOf(headers, header)).find((value) => value !== null)
  return name !== undefined && name !== null && NAME.test(name) ? name : null
}

function codexPurpose(headers: Headers): Lineage['purpose'] {
  const kind = parseObject(headerOf(headers, 'x-codex-turn-metadata') ?? '')?.request_kind
  return kind === 'turn' || kind === 'compaction' ? kind : null
}
