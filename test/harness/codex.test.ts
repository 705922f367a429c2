// The real Codex CLI, with the tools that a model catalogue gives it, and as it is for a model it does not know.
import { describeAgent } from './suite.ts'
import { codexHands, plainCodexHands } from './tasks.ts'

describeAgent('codex', [
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
])
