// Broken rules of the embedded engine's process: who is served by it, where it comes back, when it ends; and of the demo that runs on it.
import type { PlantedFault } from '../fault.ts'

const CHILD = 'test/threads/kernel-child.test.ts'
const INFERENCE = 'test/unit/config-inference.test.ts'
const EMBEDDED = 'test/e2e/serve-embedded.test.ts'

export const ENGINE_PROCESS_FAULTS: readonly PlantedFault[] = [
  {
    name: 'an engine that died comes back on another port',
    file: 'src/threads/engine.ts',
    find: 'port: ready?.port ?? 0',
    replace: 'port: 0',
    suites: ['test/threads/engine-process.test.ts'],
    tests: 'comes back',
  },
  {
    name: 'an engine that died begins its ids again',
    file: 'src/threads/engine.ts',
    find: 'seed: child.incarnation - 1',
    replace: 'seed: 0',
    suites: ['test/threads/engine-process.test.ts'],
    tests: 'comes back',
  },
  {
    name: 'nobody knows of which weights the node’s own engine samples',
    file: 'src/threads/engine-child.ts',
    find: "shape: 'sglang'",
    replace: "shape: 'vllm'",
    suites: [EMBEDDED],
    tests: 'knows of which weights',
  },
  {
    name: 'a child process outlives an owner that was killed',
    file: 'src/kernel/child-entry.ts',
    find: "  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))\n",
    replace: '',
    suites: [CHILD],
  },
  {
    name: 'a child process dies of the signal that its owner drains at',
    file: 'src/kernel/child-entry.ts',
    find: "  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})\n",
    replace: '',
    suites: [CHILD],
  },
  {
    name: 'Ctrl-C in a terminal ends a child process that is just starting',
    file: 'src/kernel/child.ts',
    find: ', detached: true }',
    replace: ' }',
    suites: [CHILD],
    tests: 'stands outside',
  },
  {
    name: 'what a child process prints stands among the lines of its owner',
    file: 'src/kernel/child.ts',
    find: "stdio: ['ignore', 'ignore', 'inherit', 'ipc']",
    replace: "stdio: ['ignore', 'inherit', 'inherit', 'ipc']",
    suites: [CHILD],
  },
  {
    name: 'a call to a process that died waits for its deadline',
    file: 'src/kernel/admin-calls.ts',
    find: '      for (const settle of [...waiting]) settle(message)\n',
    replace: '',
    suites: [CHILD],
  },
  {
    name: 'a gateway that was forgotten among others is served by the tiny policy',
    file: 'src/config/inference.ts',
    find: '(written !== false && nameless.length === nodes.length)',
    replace: 'written !== false',
    suites: [INFERENCE],
  },
  {
    name: 'a client of a node must name the servers that the node’s command line names',
    file: 'src/config.ts',
    find: 'overrides.isClient === true ? [] : ',
    replace: '',
    suites: [INFERENCE],
  },
  {
    name: 'each gateway gets all places of the embedded engine',
    file: 'src/node-setup.ts',
    find: 'gatewaySetup({ ...config, nodes }, node',
    replace: 'gatewaySetup({ ...config, nodes: [node] }, node',
    suites: [INFERENCE],
  },
  {
    name: 'a node goes on without its engine',
    file: 'src/threads/engine.ts',
    find: "      if (phase === 'failed') failure.resolve(",
    replace: "      if (phase === 'draining') failure.resolve(",
    suites: [EMBEDDED],
    tests: 'ends, and says why',
  },
  {
    name: 'a node that stops leaves its engine out of the drain',
    file: 'src/node-drain.ts',
    find: '...(engine === null ? [] :',
    replace: '...(engine !== null ? [] :',
    suites: [EMBEDDED],
    tests: 'is drained of that last',
  },
  {
    name: 'the demo gives a session that was not graded the reward 0',
    file: 'examples/demo/group.ts',
    find: 'reward: own?.reward ?? null',
    replace: 'reward: own?.reward ?? 0',
    suites: ['test/unit/demo-group.test.ts'],
  },
  {
    name: 'the demo takes a group for a lesson whose rewards are all alike',
    file: 'examples/demo/group.ts',
    find: '.size > 1',
    replace: '.size > 0',
    suites: ['test/unit/demo-group.test.ts'],
  },
]
