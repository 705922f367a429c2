// The real Codex CLI, with the tools that a model catalogue gives it, and as it is for a model it does not know.
import { expect, it } from 'vitest'
import { call, type Script } from './answers.ts'
import { accountFor, checkRecords } from './laws.ts'
import { describeAgent, MODEL, TEST_MS } from './suite.ts'
import { codexHands, mcpServer, NOTE_FILES, noteTask, plainCodexHands, subAgent, subAgentTask } from './tasks.ts'

describeAgent(
  'codex',
  [
    {
      name: 'with a model catalogue',
      dialect: 'openai-responses',
      settings: { model_catalog: 'gpt-5.5' },
      hands: codexHands,
      tools: ['exec_command', 'write_stdin', 'apply_patch'],
      diagnostics: ['history-restored', 'grammar-not-enforced'],
    },
    {
      name: 'with a model it does not know',
      dialect: 'openai-responses',
      settings: {},
      hands: plainCodexHands,
      tools: ['exec_command', 'write_stdin'],
      // What a group of tools says of itself: the tools in it say what they are.
      diagnostics: ['history-restored', 'field-dropped'],
    },
  ],
  (bench) => {
    const expected = {
      dialect: 'openai-responses',
      model: MODEL,
      statuses: ['ok'],
      diagnostics: ['history-restored', 'field-dropped'],
    } as const

    it(
      'calls a tool of an MCP server, which it offers in a namespace',
      async () => {
        const agent = { harness: 'codex', mcp_servers: [mcpServer(bench().out)] }
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
        const spawn = (message: string) => call('multi_agent_v1__spawn_agent', { message })
        const wait = (last: string) =>
          call('multi_agent_v1__wait_agent', { targets: [/"agent_id":"([^"]+)"/.exec(last)?.[1]], timeout_ms: 20_000 })
        const script = subAgentTask(plainCodexHands, spawn, wait)
        const rollout = await bench().run({ harness: 'codex' }, script, {}, subAgent(plainCodexHands))
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        for (const session of rollout.sessions) checkRecords(session, expected)
        expect(accountFor(rollout, { chains: 2, breaks: { subagent_of: 1 } })).toEqual({ turns: 7, aux: 0, retries: 0, repeats: 0 })
        expect(await bench().leftovers()).toEqual([])
      },
      TEST_MS,
    )

    it(
      'goes on under a goal of its own, which it tells outside any call',
      async () => {
        const script: Script = [
          () => ({ text: 'A goal.', calls: [call('create_goal', { objective: 'say hello' })] }),
          (last) => ({
            text: last.includes('agent__goal_objective:\nsay hello') ? 'I see it.' : 'What goal?',
            calls: [call('exec_command', { cmd: 'echo hello' })],
          }),
          () => ({ text: 'Reached.', calls: [call('update_goal', { status: 'complete' })] }),
          () => ({ text: 'Done.' }),
        ]
        const rollout = await bench().run({ harness: 'codex' }, script)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        const diagnostics = [...expected.diagnostics, 'role-approximated']
        for (const session of rollout.sessions) checkRecords(session, { ...expected, diagnostics })
        expect(accountFor(rollout)).toEqual({ turns: 4, aux: 0, retries: 0, repeats: 0 })
        expect(JSON.stringify(rollout.sessions)).toContain('I see it.')
      },
      TEST_MS,
    )

    it(
      'is told which models Codex knows when its catalogue is to be that of none',
      async () => {
        const rollout = await bench().run({ harness: 'codex', settings: { model_catalog: 'gpt-0' } }, [])
        expect(rollout.sessions.map(({ outcome }) => outcome)).toEqual(['harness_error'])
        expect(rollout.sessions.map(({ error }) => error)).toEqual([
          expect.stringMatching(/Codex knows no model gpt-0; it knows: .*gpt-5\.5/),
        ])
      },
      TEST_MS,
    )

    it(
      'is told which of its own configuration keys there is none of',
      async () => {
        const rollout = await bench().run({ harness: 'codex', settings: { config: { no_such_key: 1 } } }, [])
        expect(rollout.sessions.map(({ outcome }) => outcome)).toEqual(['harness_error'])
        expect(rollout.sessions.map(({ error }) => error)).toEqual([expect.stringContaining('unknown configuration field `no_such_key`')])
      },
      TEST_MS,
    )
  },
)
