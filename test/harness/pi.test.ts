// The real pi CLI on each of its four protocols.
import { expect, it } from 'vitest'
import type { Script } from './answers.ts'
import { accountFor } from './laws.ts'
import { describeAgent, TEST_MS, type Way } from './suite.ts'
import { piHands } from './tasks.ts'

const onApi = (api: string, dialect: Way['dialect']): Way => ({
  name: `on ${api}`,
  dialect,
  settings: { api },
  hands: piHands,
  tools: ['bash', 'edit', 'read', 'write'],
  diagnostics: ['history-restored'],
})

/** Small models write a list as its JSON text; pi reads it, and returns the list. */
const REWRITTEN: Script = [
  () => ({ text: 'Begin.', calls: [piHands.shell('echo one > a.txt')] }),
  () => ({
    text: 'Edit.',
    calls: [{ name: 'edit', input: '{"path": "a.txt", "edits": "[{\\"oldText\\": \\"one\\", \\"newText\\": \\"two\\"}]"}' }],
  }),
  () => ({ calls: [{ name: 'bash', input: '{"command": "cat a.txt", "timeout": "30"}' }] }),
  (last) => ({ text: last.includes('two') ? 'Done.' : 'Not done.' }),
]

describeAgent(
  'pi',
  [
    onApi('openai-completions', 'openai-chat'),
    onApi('openai-responses', 'openai-responses'),
    onApi('anthropic-messages', 'anthropic'),
    onApi('google-generative-ai', 'google'),
  ],
  (bench) => {
    it(
      'stays one chain although it writes a call otherwise when it returns it',
      async () => {
        const rollout = await bench().run({ harness: 'pi' }, REWRITTEN)
        expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
        expect(accountFor(rollout)).toEqual({ turns: 4, aux: 0, retries: 0, repeats: 0 })
      },
      TEST_MS,
    )
  },
)
