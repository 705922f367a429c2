// The real Gemini CLI.
import { expect, it } from 'vitest'
import { call, type SubScript } from './answers.ts'
import { accountFor, checkRecords } from './laws.ts'
import { describeAgent, MODEL, TEST_MS } from './suite.ts'
import { DOLLARS, geminiHands, mcpServer, noteTask, subAgent, subAgentTask, twoTurns } from './tasks.ts'

const SHARED = { dialect: 'google', diagnostics: ['history-restored'] } as const
const TOOLS = ['invoke_agent', 'read_file', 'replace', 'run_shell_command', 'write_file']

const spawn = (prompt: string) => call('invoke_agent', { agent_name: 'generalist', prompt })

/** A sub-agent that only says how it ended is asked again for this call. */
const complete = () => ({ text: 'There is nothing.', calls: [call('complete_task', { result: { response: 'Nothing.' } })] })
const { when, script: looking } = subAgent(geminiHands)
const completingSubAgent: SubScript = { when, script: [...looking.slice(0, -1), complete] }

describeAgent('gemini_cli', [{ ...SHARED, name: 'as it is', settings: {}, hands: geminiHands, tools: TOOLS }], (bench) => {
  const expected = { ...SHARED, model: MODEL, statuses: ['ok'] } as const

  it(
    'calls a tool of an MCP server, whose settings come out as they were given',
    async () => {
      const server = { ...mcpServer(bench().out), env: { NOTE_NAME: DOLLARS } }
      const rollout = await bench().run({ harness: 'gemini_cli', mcp_servers: [server] }, noteTask('mcp_notes_write_note'))
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
      const rollout = await bench().run({ harness: 'gemini_cli' }, subAgentTask(geminiHands, spawn, null), {}, completingSubAgent)
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
    'goes on when nobody tells it which of its own models is to answer',
    async () => {
      const rollout = await bench().run({ harness: 'gemini_cli', model_name: 'auto' }, twoTurns(geminiHands, bench().out))
      expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
      expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
    },
    TEST_MS,
  )

  it(
    'has the tools and prompts that its task gives it, and is known to have run out of turns',
    async () => {
      const settings = {
        max_session_turns: 1,
        agents: false,
        exclude_tools: ['replace'],
        system_prompt: 'You are nobody.',
        append_system_prompt: 'Remember $HOME.',
        max_tokens: 7777,
        thinking: false,
      }
      const rollout = await bench().run({ harness: 'gemini_cli', settings }, twoTurns(geminiHands, bench().out))
      expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([
        ['agent_error', expect.stringContaining('Reached max session turns')],
      ])
      expect(rollout.generations).toMatchObject([{ body: { max_tokens: 7777, chat_template_kwargs: { enable_thinking: false } } }])
      const asked = JSON.stringify(rollout.generations[0]?.body)
      expect(asked).toContain('You are nobody.')
      expect(asked).toContain('Remember $HOME.')
      expect(asked).not.toMatch(/"name":"(invoke_agent|replace)"/)
    },
    TEST_MS,
  )
})
