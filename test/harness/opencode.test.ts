// The real OpenCode: on the four protocols it speaks, with the sub-agents and tools of others that it can have.
import { expect, it } from 'vitest'
import { call, type Script } from './answers.ts'
import { accountFor, checkRecords } from './laws.ts'
import { describeAgent, MODEL, TEST_MS, type Way } from './suite.ts'
import { mcpServer, NOTE_FILES, noteTask, opencodeHands, subAgent, subAgentTask } from './tasks.ts'

const onApi = (api: string, dialect: Way['dialect']): Way => ({
  name: `on ${api}`,
  dialect,
  settings: { api },
  hands: opencodeHands,
  tools: ['bash', 'edit', 'read', 'task', 'write'],
  diagnostics: ['history-restored'],
})

/** What OpenCode writes otherwise when it returns a call: another name for one it cannot do, and numbers as JavaScript prints them. */
const REWRITTEN: Script = [
  () => ({ text: 'Begin.', calls: [{ name: 'bash', input: '{"timeout": 30000.0, "command": "echo one > a.txt"}' }] }),
  () => ({ think: 'To be read.', calls: [{ name: 'Read', input: '{"filePath": "a.txt", "limit": 10.0}' }] }),
  () => ({ text: 'No such tool.', calls: [call('look_around', { far: 1 }), { name: 'bash', input: '{"command": 5}' }] }),
  () => ({
    think: 'Then so.',
    calls: [{ name: 'edit', input: '{"replaceAll": false, "newString": "two", "oldString": "one", "filePath": "a.txt", "more": null}' }],
  }),
  (last) => ({ text: last.includes('successfully') ? 'Done.' : 'Not done.' }),
]

describeAgent(
  'opencode',
  [
    onApi('openai-compatible', 'openai-chat'),
    { ...onApi('openai', 'openai-responses'), isShort: true },
    // Its calls come back without ids: what was sampled is known by its words alone.
    onApi('google', 'google'),
    { ...onApi('anthropic', 'anthropic'), isShort: true },
  ],
  (bench) => {
    const expected = { dialect: 'openai-chat', model: MODEL, statuses: ['ok'], diagnostics: ['history-restored'] } as const

    it(
      'stays one chain although it writes calls otherwise when it returns them',
      async () => {
        const rollout = await bench().run({ harness: 'opencode' }, REWRITTEN)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        expect(accountFor(rollout)).toEqual({ turns: 5, aux: 0, retries: 0, repeats: 0 })
        expect(JSON.stringify(rollout.generations.at(-1)?.body)).toContain('applied successfully')
      },
      TEST_MS,
    )

    it(
      'calls a tool of an MCP server',
      async () => {
        const agent = { harness: 'opencode', mcp_servers: [mcpServer(bench().out)] }
        const rollout = await bench().run(agent, noteTask('notes_write_note'))
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
        const spawn = (prompt: string) => call('task', { description: 'Look around', prompt, subagent_type: 'general' })
        const script = subAgentTask(opencodeHands, spawn, null)
        const rollout = await bench().run({ harness: 'opencode' }, script, {}, subAgent(opencodeHands))
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
      'does as the task says of its prompts, its steps, and what is not allowed',
      async () => {
        const settings = {
          ...{ system_prompt: 'You are {env:HOME}.', append_system_prompt: 'Be brief {file:/x}.', max_steps: 2 },
          permission: { webfetch: 'deny', bash: { 'rm *': 'deny' } },
        }
        const script: Script = [() => ({ calls: [opencodeHands.shell('rm -rf .')] }), () => ({ text: 'I leave it.' })]
        const rollout = await bench().run({ harness: 'opencode', settings }, script)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        expect(accountFor(rollout)).toEqual({ turns: 2, aux: 0, retries: 0, repeats: 0 })
        const asked = JSON.stringify(rollout.generations.at(-1)?.body)
        expect(asked).toContain('You are {env:HOME}.')
        expect(asked).toContain('Be brief {file:/x}.')
        expect(asked).toContain('specified a rule which prevents you from using this specific tool call')
        expect(asked).toContain('MAXIMUM STEPS REACHED')
        expect(asked).not.toContain('"name":"webfetch"')
      },
      TEST_MS,
    )
  },
)
