// Which agent of a session a call is of: what each CLI says in its headers, and what the session makes of it.
import { describe, expect, it } from 'vitest'
import { lineageOf } from '../../src/proxy/lineage.ts'
import { HELLO, openProxy } from '../lib/proxy-fixture.ts'

const codex = (request_kind: string) => ({ 'x-codex-turn-metadata': JSON.stringify({ request_kind, thread_source: 'user' }) })
const claude = { 'x-claude-code-session-id': 'session-1' }
const opencode = { 'x-session-affinity': 'ses_1' }

describe('what agent CLIs say of their agents', () => {
  it.each([
    ['Codex, the first agent', { ...codex('turn'), 'thread-id': 't1', 'session-id': 't1' }, 't1', null, 'turn'],
    [
      'Codex, a sub-agent',
      { ...codex('turn'), 'thread-id': 't2', 'session-id': 't1', 'x-codex-parent-thread-id': 't1', 'x-openai-subagent': 'collab_spawn' },
      't2',
      't1',
      'turn',
    ],
    ['Codex, a compaction', { ...codex('compaction'), 'thread-id': 't1' }, 't1', null, 'compaction'],
    ['Codex, a kind of call that is not known', { ...codex('review'), 'thread-id': 't1' }, 't1', null, null],
    ['Codex, with metadata that are no JSON', { 'x-codex-turn-metadata': '{', 'thread-id': 't1' }, 't1', null, null],
    ['Claude Code, the first agent', claude, 'session-1', null, null],
    ['Claude Code, a sub-agent', { ...claude, 'x-claude-code-agent-id': 'a1' }, 'a1', 'session-1', null],
    [
      'Claude Code, a sub-agent of a sub-agent',
      { ...claude, 'x-claude-code-agent-id': 'a2', 'x-claude-code-parent-agent-id': 'a1' },
      'a2',
      'a1',
      null,
    ],
    ['OpenCode, the first agent', { ...opencode, 'x-session-id': 'ses_1' }, 'ses_1', null, null],
    ['OpenCode, a sub-agent', { ...opencode, 'x-session-id': 'ses_2', 'x-parent-session-id': 'ses_1' }, 'ses_2', 'ses_1', null],
  ])('%s', (_, headers, agent, parent, purpose) => {
    expect(lineageOf(headers)).toEqual({ agent, parent, purpose })
  })

  it.each<[string, Readonly<Record<string, string | readonly string[]>>]>([
    ['nothing', {}],
    ['a session alone, which many clients send', { 'x-session-id': 'ses_1', session_id: 's' }],
    ['a name that is too long', { ...claude, 'x-claude-code-agent-id': 'a'.repeat(129) }],
    ['a name with spaces in it', { ...opencode, 'x-session-id': 'one two' }],
    ['an empty name', { ...codex('turn'), 'thread-id': '' }],
  ])('%s is no agent', (_, headers) => {
    expect(lineageOf(headers)).toBeNull()
  })

  it('takes an agent that says it spawned itself for a first one', () => {
    expect(lineageOf({ ...codex('turn'), 'thread-id': 't1', 'x-codex-parent-thread-id': 't1' })).toMatchObject({ parent: null })
  })
})

describe('two agents of one session that begin with the same words', () => {
  const agent = (name: string) => ({ ...claude, 'x-claude-code-agent-id': name })

  it('never get the answer that the other one left', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    const left = await proxy.chat(door, HELLO, agent('a1'))
    left.leave()
    await proxy.chat(door, HELLO, agent('a2'))
    expect(proxy.generations).toHaveLength(2)
    await proxy.chat(door, HELLO, agent('a1'))
    expect(proxy.generations).toHaveLength(2)
    for (const generation of proxy.generations) generation.answer()
    await proxy.settle()
    const { calls } = await door.seal()
    const lineage = (name: string) => ({ agent: name, parent: 'session-1', purpose: null })
    expect(calls).toMatchObject([
      { lineage: lineage('a1'), retryOf: null, delivery: 'yes' },
      { lineage: lineage('a2'), retryOf: null, delivery: 'yes' },
    ])
  })

  it('retry their own call each', async () => {
    const proxy = openProxy()
    const door = proxy.openDoor()
    for (const name of ['a1', 'a2', 'a1', 'a2']) {
      await proxy.chat(door, HELLO, agent(name))
      proxy.generations.at(-1)?.respond(500, {})
      await proxy.settle()
    }
    const { calls } = await door.seal()
    expect(calls.map(({ retryOf }) => retryOf)).toEqual([null, null, calls[0]?.id, calls[1]?.id])
  })
})
