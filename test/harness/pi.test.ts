// The real pi CLI on each of its four protocols.
import { describeAgent, type Way } from './suite.ts'
import { piHands } from './tasks.ts'

const onApi = (api: string, dialect: Way['dialect']): Way => ({
  name: `on ${api}`,
  dialect,
  settings: { api },
  hands: piHands,
  tools: ['bash', 'edit', 'read', 'write'],
  diagnostics: ['history-restored'],
})

describeAgent('pi', [
  onApi('openai-completions', 'openai-chat'),
  onApi('openai-responses', 'openai-responses'),
  onApi('anthropic-messages', 'anthropic'),
  onApi('google-generative-ai', 'google'),
])
