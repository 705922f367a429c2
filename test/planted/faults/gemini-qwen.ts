// Broken rules of Gemini CLI and Qwen Code: what they are asked to keep to themselves, what reaches them as it was given, how they failed.
import type { PlantedFault } from '../fault.ts'

const GEMINI = ['test/unit/harness-gemini-cli.test.ts']
const QWEN = ['test/unit/harness-qwen-code.test.ts']

export const GEMINI_QWEN_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a dollar in a CLI’s settings becomes a variable of its environment',
    file: 'src/harness/settings-file.ts',
    find: "value.replaceAll('$', () => DOLLAR_SIGN)",
    replace: 'value',
    suites: GEMINI,
  },
  {
    name: 'a dollar in the environment of Gemini CLI’s MCP server becomes a variable of its own',
    file: 'src/harness/gemini-cli.ts',
    find: 'env: unexpanded(server.env)',
    replace: 'env: server.env',
    suites: GEMINI,
  },
  {
    name: 'a policy is sampled as Gemini CLI likes it',
    file: 'src/harness/gemini-cli.ts',
    find: '[ANY_MODEL, modelName].map',
    replace: '[modelName].map',
    suites: GEMINI,
  },
  {
    name: 'a task sends Gemini CLI past its session',
    file: 'src/harness/gemini-cli.ts',
    find: 'checkOwnKeys(NAME, settings.settings.config, OWN_KEYS) ??',
    replace: '',
    suites: GEMINI,
  },
  {
    name: 'what a task appends to the prompt replaces the settings of Gemini CLI',
    file: 'src/harness/gemini-cli.ts',
    find: 'checkMemory(settings.settings) ??',
    replace: '',
    suites: GEMINI,
  },
  {
    name: 'Gemini CLI asks a model now and then whether the agent runs in circles',
    file: 'src/harness/gemini-cli.ts',
    find: '!settings.loop_detection',
    replace: 'settings.loop_detection',
    suites: GEMINI,
  },
  {
    name: 'Gemini CLI passes for done when its call failed',
    file: 'src/harness/gemini-cli.ts',
    find: "result.status === 'success'",
    replace: "result.status !== 'aborted'",
    suites: GEMINI,
  },
  {
    name: 'Qwen Code asks a model what is worth remembering',
    file: 'src/harness/qwen-code.ts',
    find: 'settings.memory ?? false',
    replace: 'settings.memory ?? true',
    suites: QWEN,
  },
  {
    name: 'Qwen Code tells its vendor of its bare runs',
    file: 'src/harness/qwen-code.ts',
    find: "      QWEN_USAGE_STATISTICS_ENABLED: 'false',\n",
    replace: '',
    suites: QWEN,
  },
  {
    name: 'a setting that Qwen Code never reads in its bare mode passes for one that holds',
    file: 'src/harness/qwen-code.ts',
    find: 'settings.bare ? Object.keys',
    replace: 'settings.bare && settings.memory ? Object.keys',
    suites: QWEN,
  },
  {
    name: 'Qwen Code passes for done when it has used up its turns',
    file: 'src/harness/qwen-code.ts',
    find: 'return { failed: true, reason: `qwen_code ended without',
    replace: 'return { failed: false, reason: `qwen_code ended without',
    suites: QWEN,
  },
  {
    name: 'an effort in the form of routers, as Qwen Code tells it, is lost',
    file: 'src/proxy/dialects/openai-chat/request.ts',
    find: 'isPlain ? body.reasoning_effort : reasoning.effort',
    replace: 'body.reasoning_effort',
    suites: ['test/unit/proxy-chat-request.test.ts'],
  },
]
