// Broken rules of the replica set: who still gets calls, who waits for nothing, what is left, whose rank and whose worker it is.
import type { PlantedFault } from '../fault.ts'

const CHANGES = 'test/unit/proxy-pool-changes.test.ts'
const RANKS = 'test/unit/proxy-pool-ranks.test.ts'
const ROUTER = 'test/unit/proxy-pool-router.test.ts'
const CONTROL = 'test/conformance/control-replicas.test.ts'

export const REPLICA_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a removed replica is still asked first',
    file: 'src/proxy/pool/pool.ts',
    find: "    member.phase = 'leaving'\n    members.delete(member)\n",
    replace: "    member.phase = 'leaving'\n",
    suites: [CHANGES],
  },
  {
    name: 'whoever waits for a removed replica waits on',
    file: 'src/proxy/pool/state.ts',
    find: "  if (state.isRemoved) return { type: 'refused'",
    replace: "  if (state.isRemoved && state.leases.size === 0) return { type: 'refused'",
    suites: ['test/model/proxy-replica.test.ts'],
  },
  {
    name: 'a removed replica is closed under its last call',
    file: 'src/proxy/pool/pool.ts',
    find: "if (member.phase === 'leaving' && member.outstanding === 0) end(member)",
    replace: "if (member.phase === 'leaving') end(member)",
    suites: [CHANGES],
  },
  {
    name: 'a removed replica is never gone',
    file: 'src/proxy/pool/pool.ts',
    find: '    member.outstanding -= 1\n    endIfIdle(member)\n',
    replace: '    member.outstanding -= 1\n',
    suites: ['test/model/proxy-replica-set.test.ts'],
  },
  {
    name: 'nobody hears that the last replica was removed',
    file: 'src/proxy/pool/pool.ts',
    find: '    serves(member, false)\n',
    replace: '',
    suites: [CHANGES],
  },
  {
    name: 'a newcomer stands idle beside a line',
    file: 'src/proxy/pool/pool.ts',
    find: '    relieveOthers(member)\n',
    replace: '',
    suites: [CHANGES],
  },
  {
    name: 'a call that was sent to a newcomer in vain is sent away',
    file: 'src/proxy/pool/pool.ts',
    find: "if (acquired.reason === 'moved') asked.delete(member)\n      else if",
    replace: 'if',
    suites: [CHANGES],
  },
  {
    name: 'a session is placed by who calls at this moment',
    file: 'src/proxy/pool/choice.ts',
    find: '      member.sessions,\n      member.outstanding,\n',
    replace: '      member.outstanding,\n      member.sessions,\n',
    suites: ['test/unit/proxy-pool.test.ts'],
  },
  {
    name: 'a call waits for the probe of a newcomer',
    file: 'src/proxy/pool/choice.ts',
    find: '      member.isServing ? 0 : 1,\n',
    replace: '',
    suites: [CHANGES],
  },
  {
    name: 'two replicas call one server',
    file: 'src/proxy/pool/replica-set.ts',
    find: 'if (worker.url === url && (worker.rank === rank || worker.rank === null || rank === null)) return entry',
    replace: 'if (worker.url === url && worker.rank !== rank) return entry',
    suites: [CHANGES],
  },
  {
    name: 'the calls of a rank do not name it',
    file: 'src/proxy/pool/endpoints.ts',
    find: 'rank === null ? request : placed(request, rank)',
    replace: 'request',
    suites: [RANKS],
  },
  {
    name: 'each rank has the cap of all',
    file: 'src/proxy/pool/replica-set.ts',
    find: 'inFlight: shareOf(inFlight, sharers)',
    replace: 'inFlight',
    suites: [RANKS],
  },
  {
    name: 'one missing list removes a router’s workers',
    file: 'src/proxy/pool/router/state.ts',
    find: 'const MISSED_LISTS = 2',
    replace: 'const MISSED_LISTS = 1',
    suites: [ROUTER],
  },
  {
    name: 'a router that cannot be read is taken for one without workers',
    file: 'src/proxy/pool/router/state.ts',
    find: "    return [{ ...state, status: { state: 'down', detail } }, [again]]",
    replace:
      "    const gone = [...state.workers.values()].map(({ worker }): RouterEffect => ({ type: 'worker-left', worker }))\n" +
      "    return [{ ...state, workers: new Map(), status: { state: 'down', detail } }, [...gone, again]]",
    suites: [ROUTER],
  },
  {
    name: 'a prefill worker is called for whole answers',
    file: 'src/proxy/pool/router/workers.ts',
    find: "entry.worker_type !== undefined && entry.worker_type !== 'regular'",
    replace: 'entry.worker_type === undefined && entry.worker_type === null',
    suites: [ROUTER],
  },
  {
    name: 'a server stays with some gateways although others refused it',
    file: 'src/threads/replica-sets.ts',
    find: '            for (const other of added) await removeFrom(other, replica.id)\n',
    replace: '',
    suites: [CONTROL],
  },
  {
    name: 'every gateway gets the whole of a node-wide cap',
    file: 'src/threads/replica-sets.ts',
    find: 'replicaConfig(spec, gateways.length)',
    replace: 'replicaConfig(spec, 1)',
    suites: [CONTROL],
  },
  {
    name: 'a gateway thread starts again with the servers it had at first',
    file: 'src/topology.ts',
    find: 'const own = { ...gatewaySetup, replicas: replicas.of(id), isPaused: inference.holds(id) }',
    replace: 'const own = { ...gatewaySetup, isPaused: inference.holds(id) }',
    suites: ['test/threads/node-replicas.test.ts'],
  },
]
