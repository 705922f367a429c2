// Broken rules of agents and their calls: who asked, which chain it belongs to, and what it came from.
import type { PlantedFault } from '../fault.ts'

export const LINEAGE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a sub-agent is given the answer that another one left',
    file: 'src/proxy/question.ts',
    find: 'lineage?.agent ?? null',
    replace: 'null',
    suites: ['test/unit/proxy-lineage.test.ts'],
  },
  {
    name: 'an agent may have a name of any length',
    file: 'src/proxy/lineage.ts',
    find: '{1,128}$/',
    replace: '+$/',
    suites: ['test/unit/proxy-lineage.test.ts'],
  },
  {
    name: 'the first agent of Claude Code counts as spawned by itself',
    file: 'src/proxy/lineage.ts',
    find: 'parent: parent === agent ? null : parent',
    replace: 'parent',
    suites: ['test/unit/proxy-lineage.test.ts'],
  },
  {
    name: 'two sub-agents that are sent on one errand count as one that asks again',
    file: 'src/trajectory/forest.ts',
    find: '(index) => calls[index]?.record.lineage?.agent)',
    replace: '() => null)',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a sub-agent goes on with what another one was answered',
    file: 'src/trajectory/forest.ts',
    find: 'node.wholes.filter((other) => areOfOneAgent(calls[other], calls[index]))',
    replace: 'node.wholes',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a sub-agent hangs from the latest call, whatever the result says that names it',
    file: 'src/trajectory/agents.ts',
    find: 'if (named !== undefined && named < index) return named',
    replace: 'if (named === index) return named',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a sub-agent hangs from a call of its sibling',
    file: 'src/trajectory/agents.ts',
    find: "record.lineage?.agent === parent && record.status === 'ok'",
    replace: "record.status === 'ok'",
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a sub-agent whose first call failed hangs from nothing',
    file: 'src/trajectory/analysis.ts',
    find: 'if (!repeats.has(index)) {',
    replace: 'if (previous === undefined) {',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a turn that was kept is taken for the summary beside it',
    file: 'src/trajectory/relations.ts',
    find: "    if (earlier.record.finishReason === 'tool_calls') continue\n",
    replace: '',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a named agent is taken for a sub-agent by what it says',
    file: 'src/trajectory/relations.ts',
    find: '  if (later.record.lineage !== null) return null\n',
    replace: '',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a summary that was asked for in words of its own is a side call',
    file: 'src/trajectory/relations.ts',
    find: 'if (after > before && isSameOpening(conversation, earlier, later)) return false',
    replace: 'if (after > before) return false',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
  {
    name: 'a summary that its agent asked for by name is a side call',
    file: 'src/trajectory/roles.ts',
    find: ' || isSaidToBeOwn(record.lineage)',
    replace: '',
    suites: ['test/unit/trajectory-lineage.test.ts'],
  },
]
