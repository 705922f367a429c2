// Broken rules of the harnesses: where a CLI is sent, what it may be told, and how its own last word is read.
import type { PlantedFault } from '../fault.ts'

export const HARNESS_FAULTS: readonly PlantedFault[] = [
  {
    name: 'the key of an attempt stands in a configuration file',
    file: 'src/harness/codex.ts',
    find: 'env_key: KEY_VARIABLE',
    replace: 'env_key: context.modelKey',
    suites: ['test/unit/harness-plans.test.ts'],
  },
  {
    name: 'a root key of TOML lands in the last table',
    file: 'src/harness/toml.ts',
    find: 'return [...header, ...own, ...nested]',
    replace: 'return [...nested, ...header, ...own]',
    suites: ['test/unit/harness-toml.test.ts'],
  },
  {
    name: 'half a surrogate pair is written as an escape that TOML has not',
    file: 'src/harness/toml.ts',
    find: 'JSON.stringify(text.toWellFormed())',
    replace: 'JSON.stringify(text)',
    suites: ['test/unit/harness-toml.test.ts'],
  },
  {
    name: 'a task may send Codex to a provider of its own',
    file: 'src/harness/codex.ts',
    find: 'if (value !== undefined) return `agent.settings.config.',
    replace: 'if (value === null) return `agent.settings.config.',
    suites: ['test/unit/harness-codex.test.ts'],
  },
  {
    name: 'a retry that Codex reports counts as its failure',
    file: 'src/harness/codex.ts',
    find: "if (event?.type === 'turn.completed') return { failed: false }",
    replace: 'if (event?.type === \'turn.completed\' && !stdoutTail.includes(\'"type":"error"\')) return { failed: false }',
    suites: ['test/unit/harness-codex.test.ts'],
  },
  {
    name: 'Claude Code may ask for a broken stream as a whole answer',
    file: 'src/harness/claude-code.ts',
    find: "    CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK: '1',\n",
    replace: '',
    suites: ['test/unit/harness-claude-code.test.ts'],
  },
  {
    name: 'a text that quotes an error is taken for one',
    file: 'src/harness/claude-code.ts',
    find: '/"is_error":true[,}]/',
    replace: '/is_error.*true/',
    suites: ['test/unit/harness-claude-code.test.ts'],
  },
  {
    name: 'pi is sent to a version that Google has not',
    file: 'src/harness/pi.ts',
    find: "'google-generative-ai': '/v1beta'",
    replace: "'google-generative-ai': '/v1'",
    suites: ['test/unit/harness-plans.test.ts'],
  },
]
