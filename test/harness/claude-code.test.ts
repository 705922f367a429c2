// The real Claude Code: as it is, with its betas, and in its bare mode.
import { expect, it } from 'vitest'
import { call, type Script } from './answers.ts'
import { accountFor, checkRecords } from './laws.ts'
import { describeAgent, MODEL, TEST_MS } from './suite.ts'
import { bareClaudeHands, claudeHands, mcpServer, NOTE_FILES, noteTask, subAgent, subAgentTask } from './tasks.ts'

const SHARED = { dialect: 'anthropic', diagnostics: ['history-restored'] } as const

/** What Claude Code writes otherwise when it returns a call, though it is the same call. */
const REWRITTEN: Script = [
  () => ({ text: 'Where am I?', calls: [claudeHands.shell('pwd')] }),
  (last) => ({ think: 'Models say where.', calls: [claudeHands.shell(`cd ${last.trim()} && echo one`)] }),
  () => ({ calls: [{ name: 'Bash', input: '{"command": "echo two", "timeout": "30000", "run_in_background": "false"}' }] }),
  () => ({ text: 'White space.', calls: [claudeHands.write('c.txt', 'one  \ntwo\t\n')] }),
  () => ({ calls: [{ name: 'Edit', input: '{"file_path": "c.txt", "old_string": "one", "new_string": "ONE  ", "replace_all": "true"}' }] }),
  () => ({ text: 'Done.' }),
]

describeAgent(
  'claude_code',
  [
    { ...SHARED, name: 'as it is', settings: {}, hands: claudeHands, tools: ['Agent', 'Bash', 'Edit', 'Read', 'Write'] },
    {
      ...SHARED,
      name: 'with its betas',
      settings: { experimental_betas: true },
      hands: claudeHands,
      tools: ['Agent', 'Bash', 'Edit', 'Read', 'ToolSearch', 'Write'],
    },
    { ...SHARED, name: 'in its bare mode', settings: { bare: true }, hands: bareClaudeHands, tools: ['Bash', 'Edit', 'Read'] },
  ],
  (bench) => {
    const expected = { ...SHARED, model: MODEL, statuses: ['ok'] } as const

    it(
      'stays one chain although it writes calls otherwise when it returns them',
      async () => {
        const rollout = await bench().run({ harness: 'claude_code' }, REWRITTEN)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        for (const session of rollout.sessions) checkRecords(session, expected)
        expect(accountFor(rollout)).toEqual({ turns: REWRITTEN.length, aux: 0, retries: 0, repeats: 0 })
      },
      TEST_MS,
    )

    it.each([{}, { bare: true }])(
      'calls a tool of an MCP server with %j',
      async (settings) => {
        const agent = { harness: 'claude_code', settings, mcp_servers: [mcpServer(bench().out)] }
        const rollout = await bench().run(agent, noteTask('mcp__notes__write_note'))
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        for (const session of rollout.sessions) checkRecords(session, expected)
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
        expect(rollout.files).toEqual(NOTE_FILES)
        expect(await bench().leftovers()).toEqual([])
      },
      TEST_MS,
    )

    it(
      'trains a sub-agent’s turns in a chain of their own',
      async () => {
        const spawn = (prompt: string) =>
          call('Agent', { description: 'Look around', prompt, subagent_type: 'general-purpose', run_in_background: false })
        const script = subAgentTask(claudeHands, spawn, null)
        const rollout = await bench().run({ harness: 'claude_code' }, script, {}, subAgent(claudeHands))
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
  },
)
