// The real Claude Code: as it is, with its betas, and in its bare mode.
import { describeAgent } from './suite.ts'
import { bareClaudeHands, claudeHands } from './tasks.ts'

const SHARED = { dialect: 'anthropic', diagnostics: ['history-restored'] } as const

describeAgent('claude_code', [
  { ...SHARED, name: 'as it is', settings: {}, hands: claudeHands, tools: ['Agent', 'Bash', 'Edit', 'Read', 'Write'] },
  {
    ...SHARED,
    name: 'with its betas',
    settings: { experimental_betas: true },
    hands: claudeHands,
    tools: ['Agent', 'Bash', 'Edit', 'Read', 'ToolSearch', 'Write'],
  },
  { ...SHARED, name: 'in its bare mode', settings: { bare: true }, hands: bareClaudeHands, tools: ['Bash', 'Edit', 'Read'] },
])
