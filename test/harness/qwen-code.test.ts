// The real Qwen Code on each of its four protocols, and in its bare mode.
import { expect, it } from 'vitest'
import { call, type Script } from './answers.ts'
import { accountFor, checkRecords } from './laws.ts'
import { describeAgent, MODEL, TEST_MS, type Way } from './suite.ts'
import { bareQwenHands, DOLLARS, mcpServer, noteTask, qwenHands, subAgent, subAgentTask, twoTurns } from './tasks.ts'

const SHARED = { hands: qwenHands, diagnostics: ['history-restored'] } as const
const TOOLS = ['agent', 'edit', 'read_file', 'run_shell_command', 'write_file']

const onProtocol = (auth_type: string, dialect: Way['dialect']) =>
  ({ ...SHARED, name: `on ${auth_type}`, dialect, settings: { auth_type }, tools: TOOLS }) satisfies Way

const spawn = (prompt: string) =>
  call('agent', { description: 'Look around', prompt, subagent_type: 'general-purpose', run_in_background: false })

describeAgent(
  'qwen_code',
  [
    onProtocol('openai', 'openai-chat'),
    { ...onProtocol('openai-responses', 'openai-responses'), isShort: true },
    { ...onProtocol('anthropic', 'anthropic'), isShort: true },
    { ...onProtocol('gemini', 'google'), isShort: true },
    {
      ...SHARED,
      name: 'in its bare mode',
      hands: bareQwenHands,
      dialect: 'openai-chat',
      settings: { bare: true },
      isShort: true,
      tools: ['edit', 'read_file', 'run_shell_command'],
    },
  ],
  (bench) => {
    const expected = { ...SHARED, dialect: 'openai-chat', model: MODEL, statuses: ['ok'] } as const

    it(
      'calls a tool of an MCP server, whose settings come out as they were given',
      async () => {
        const server = { ...mcpServer(bench().out), env: { NOTE_NAME: DOLLARS } }
        const rollout = await bench().run({ harness: 'qwen_code', mcp_servers: [server] }, noteTask('mcp__notes__write_note'))
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        for (const session of rollout.sessions) checkRecords(session, expected)
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
        expect(Object.keys(rollout.files)).toEqual([`note-${DOLLARS}.txt`])
        expect(await bench().leftovers()).toEqual([])
      },
      TEST_MS,
    )

    it(
      'trains a sub-agent’s turns in a chain of their own',
      async () => {
        const rollout = await bench().run({ harness: 'qwen_code' }, subAgentTask(qwenHands, spawn, null), {}, subAgent(qwenHands))
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        for (const session of rollout.sessions) checkRecords(session, expected)
        expect(accountFor(rollout, { chains: 2, breaks: { subagent_of: 1 } })).toEqual({ turns: 6, aux: 0, retries: 0, repeats: 0 })
        const roles = rollout.sessions.flatMap(({ traces }) => traces.map(({ metadata }) => [metadata.segment_role, metadata.turns.length]))
        expect(roles).toEqual([
          ['main', 3],
          ['subagent', 3],
        ])
        expect(await bench().leftovers()).toEqual([])
      },
      TEST_MS,
    )

    it(
      'goes on from its own summary when the conversation has grown too long',
      async () => {
        const settings = { context_window: 40_000, auto_compact_threshold: 0.4 }
        const script: Script = [() => ({ text: 'I count.', calls: [qwenHands.shell('seq 1 4000')] }), () => ({ text: 'Counted.' })]
        const rollout = await bench().run({ harness: 'qwen_code', settings }, script)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        const kinds = rollout.sessions.flatMap(({ edges }) => edges.map(({ kind }) => kind))
        expect(kinds).toEqual(['compaction_of', 'compaction_of'])
        expect(accountFor(rollout, { chains: 3, breaks: { D9: 2 } })).toEqual({ turns: 3, aux: 0, retries: 0, repeats: 0 })
      },
      TEST_MS,
    )

    it(
      'has the prompts that its task gives it, and is known to have run out of turns',
      async () => {
        const settings = {
          bare: true,
          max_session_turns: 1,
          exclude_tools: ['notebook_edit'],
          system_prompt: 'You are nobody.',
          append_system_prompt: "Remember $HOME, don't `ls`.",
          max_tokens: 7777,
        }
        const rollout = await bench().run({ harness: 'qwen_code', settings }, twoTurns(qwenHands, bench().out))
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([
          ['agent_error', expect.stringContaining('Reached max session turns')],
        ])
        expect(rollout.generations).toMatchObject([{ body: { max_tokens: 7777 } }])
        const asked = JSON.stringify(rollout.generations[0]?.body)
        expect(asked).toContain('You are nobody.')
        expect(asked).toContain("Remember $HOME, don't `ls`.")
        expect(asked).not.toContain('"name":"notebook_edit"')
      },
      TEST_MS,
    )
  },
)
