// Broken rules of OpenCode: what it may read into its configuration, what it fetches, and how it writes the calls that it returns.
import type { PlantedFault } from '../fault.ts'

const HARNESS = ['test/unit/harness-opencode.test.ts']

export const OPENCODE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'OpenCode reads a file of the machine into a prompt that names one',
    file: 'src/harness/opencode.ts',
    find: '(?=env:|file:)',
    replace: '(?=env:)',
    suites: HARNESS,
  },
  {
    name: 'OpenCode fetches a package in every session',
    file: 'src/harness/opencode.ts',
    find: '/.config/opencode`].flatMap',
    replace: '/.opencode`].flatMap',
    suites: HARNESS,
  },
  {
    name: 'an agent that OpenCode does not know is taken for its default one',
    file: 'src/harness/opencode.ts',
    find: 'known.includes(agent) ? null',
    replace: 'known.length > 0 ? null',
    suites: HARNESS,
  },
  {
    name: 'what a project says of OpenCode’s provider is read last',
    file: 'src/harness/opencode.ts',
    find: '    OPENCODE_CONFIG_DIR: folder,\n',
    replace: '',
    suites: HARNESS,
  },
  {
    name: 'OpenCode failed although it got over what failed',
    file: 'src/harness/opencode.ts',
    find: "if (event?.type === 'step_finish' && event.part?.reason !== 'tool-calls') return { failed: false }",
    replace: "if (event?.part?.reason === 'stop' && !stdoutTail.includes('APIError')) return { failed: false }",
    suites: HARNESS,
  },
  {
    name: 'a call is told the engine under the name that OpenCode gave it',
    file: 'src/proxy/rewording.ts',
    find: ' && given.function.name.toLowerCase() !== returned.function.name',
    replace: '',
    suites: ['test/unit/proxy-recall.test.ts'],
  },
  {
    name: 'OpenCode’s complaint of one tool stands for a call of another',
    file: 'src/proxy/rewording.ts',
    find: 'return is.tool === given.function.name && ',
    replace: 'return ',
    suites: ['test/unit/proxy-recall.test.ts'],
  },
  {
    name: 'a model name with a slash has no route in the AI SDK’s words',
    file: 'src/proxy/detect.ts',
    find: '(GOOGLE_MODELS.exec(path) ?? GOOGLE_PATH_NAME.exec(path))',
    replace: 'GOOGLE_MODELS.exec(path)',
    suites: ['test/unit/dialect-google-routes.test.ts'],
  },
  {
    name: 'a title that OpenCode asks for first spawns its agent',
    file: 'src/trajectory/relations.ts',
    find: 'later.record.toolCount > 0 ? earlier.filter(hasTools) : earlier',
    replace: 'earlier',
    suites: ['test/unit/trajectory-relations.test.ts'],
  },
]
