// Broken rules of what all agent CLIs share: which program runs, in which version, what it is given and what is kept of it.
import type { PlantedFault } from '../fault.ts'

export const AGENT_PROGRAM_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a node’s own copy runs in another version than the task pins',
    file: 'src/harness/program.ts',
    find: 'settings.version !== own.version',
    replace: 'own.version === undefined',
    suites: ['test/unit/harness-program.test.ts'],
  },
  {
    name: 'an image’s CLI passes in another version',
    file: 'src/harness/program.ts',
    find: 'word#v}" = ',
    replace: 'word#v}" != ',
    suites: ['test/unit/harness-program.test.ts'],
  },
  {
    name: 'the image’s program is passed over for this node’s own copy',
    file: 'src/harness/program.ts',
    find: "settings.install === 'auto' ? context",
    replace: "settings.install !== 'none' ? context",
    suites: ['test/unit/harness-program.test.ts'],
  },
  {
    name: 'an instruction by file is the prompt itself',
    file: 'src/harness/program.ts',
    find: 'stdin: quoted(prompt)',
    replace: 'stdin: `"$${INSTRUCTION_FILE}"`',
    suites: ['test/unit/harness-program.test.ts'],
  },
  {
    name: 'a plan of no shape reaches the sandbox',
    file: 'src/harness/custom.ts',
    find: 'return parsed.success ?',
    replace: 'return parsed.success || true ?',
    suites: ['test/unit/harness-custom.test.ts'],
  },
  {
    name: 'an operator’s module that throws takes the session’s actor along',
    file: 'src/harness/custom.ts',
    find: 'return { ok: false, error: textOf(error) }',
    replace: 'throw error',
    suites: ['test/unit/harness-custom.test.ts'],
  },
  {
    name: 'a harness’s upload that the operator refuses is tried again',
    file: 'src/actors/session/preparation.ts',
    find: "uploaded.error.code === 'upload-refused'",
    replace: 'false',
    suites: ['test/e2e/custom-harness.test.ts'],
    tests: 'uploads-anything',
  },
  {
    name: 'what an agent left to be kept goes with its sandbox',
    file: 'src/actors/sandbox/actor.ts',
    find: 'agentLogs.set(launch.sandbox, launch.logs)',
    replace: 'agentLogs.set(launch.sandbox, [])',
    suites: ['test/e2e/custom-harness.test.ts'],
    tests: 'LOGS_DIR',
  },
  {
    name: 'a log is copied from behind a link',
    file: 'src/runtime/agent-logs.ts',
    find: '(await realpath(path).catch(() => null)) !== path',
    replace: 'path === home',
    suites: ['test/unit/runtime-agent-logs.test.ts'],
  },
  {
    name: 'a file of somebody else’s is a log by its second name',
    file: 'src/runtime/agent-logs.ts',
    find: 'stat?.isFile() && stat.nlink === 1',
    replace: 'stat?.isFile()',
    suites: ['test/unit/runtime-agent-logs.test.ts'],
  },
  {
    name: 'the logs of one session have no bound',
    file: 'src/runtime/agent-logs.ts',
    find: 'bytes + size > bounds.bytes',
    replace: 'size < 0',
    suites: ['test/unit/runtime-agent-logs.test.ts'],
  },
]
