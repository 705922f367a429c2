// Broken rules of pauses and of a gateway's own routes: who is held, who is let go, and who hears of whom.
import type { PlantedFault } from '../fault.ts'

const GATE = 'test/unit/proxy-pause-gate.test.ts'
const POOL = 'test/unit/proxy-pool-pause.test.ts'
const GATEWAYS = 'test/unit/inference-pauses.test.ts'
const EVENTS = 'test/conformance/control-events.test.ts'

export const INFERENCE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a new call passes a pause',
    file: 'src/proxy/pool/pool.ts',
    find: '      while (gate.isPaused() && !signal.aborted) await gate.pass(signal)\n',
    replace: '',
    suites: [POOL],
  },
  {
    name: 'a grant that was on its way when the pause came is used',
    file: 'src/proxy/pool/pool.ts',
    find: "if (acquired.type === 'granted' && !signal.aborted && !gate.isPaused()) {",
    replace: "if (acquired.type === 'granted' && !signal.aborted) {",
    suites: [POOL],
  },
  {
    name: 'a call that stood in line through a pause is told that it took too long',
    file: 'src/proxy/pool/pool.ts',
    find: "if (acquired.type === 'granted' || gate.pauses() !== pauses) {",
    replace: "if (acquired.type === 'granted') {",
    suites: [POOL],
  },
  {
    name: 'a server that is added in a pause is probed in it',
    file: 'src/proxy/pool/pool.ts',
    find: 'openMember(options, replica, gate.isPaused(), serves)',
    replace: 'openMember(options, replica, false, serves)',
    suites: [POOL],
  },
  {
    name: 'a probe that is on its way goes on in a pause',
    file: 'src/proxy/pool/pool.ts',
    find: '      if (isPaused) member.endProbe()\n',
    replace: '',
    suites: [POOL],
  },
  {
    name: 'calls go on being held after a pause that timed out',
    file: 'src/proxy/pool/pause-gate.ts',
    find: 'if (drains.size === 0) open()',
    replace: 'if (drains.size > 0) open()',
    suites: [GATE],
  },
  {
    name: 'a pause that times out ends one that still waits',
    file: 'src/proxy/pool/pause-gate.ts',
    find: 'if (drains.size === 0) open()',
    replace: 'open()',
    suites: ['test/model/proxy-pause.test.ts'],
  },
  {
    name: 'a pause is granted while a call is in flight',
    file: 'src/proxy/pool/pause-gate.ts',
    find: "if (inFlight === 0) return Promise.resolve('paused')",
    replace: "if (inFlight <= 1) return Promise.resolve('paused')",
    suites: ['test/model/proxy-pause.test.ts'],
  },
  {
    name: 'an outage goes on in a pause',
    file: 'src/proxy/generation.ts',
    find: '    if (pool.pauses() !== pauses) lessons.outage = null\n',
    replace: '',
    suites: [POOL],
  },
  {
    name: 'a call that waits behind held ones is refused in a pause',
    file: 'src/proxy/admitted.ts',
    find: 'if (pool.isPaused()) timer',
    replace: 'if (pool.isPaused() && signal.aborted) timer',
    suites: [POOL],
  },
  {
    name: 'gateways stay paused when another cannot be',
    file: 'src/threads/inference-pauses.ts',
    find: '        await Promise.all(wanted.map((gateway) => giveUp(gateway, claim)))\n',
    replace: '',
    suites: [GATEWAYS],
  },
  {
    name: 'a gateway that was paused before goes on when a pause of all fails',
    file: 'src/threads/inference-pauses.ts',
    find: '    return isGranted || pending.size > 0\n',
    replace: '    return pending.size > 0\n',
    suites: [GATEWAYS],
  },
  {
    name: 'a gateway thread that starts again forgets that it was paused',
    file: 'src/topology.ts',
    find: 'replicas: replicas.of(id), isPaused: inference.holds(id) }',
    replace: 'replicas: replicas.of(id), isPaused: false }',
    suites: ['test/threads/node-inference.test.ts'],
  },
  {
    name: "a gateway's readers hear of the sessions of all",
    file: 'src/http/routes/events.ts',
    find: "event.type === 'session.state_changed' && event.gateway === gateway",
    replace: "event.type === 'session.state_changed'",
    suites: [EVENTS],
  },
  {
    name: 'what a filtered reader missed is sent as if it wanted all of it',
    file: 'src/http/events.ts',
    find: 'at > (seen ?? 0) && wanted(event)',
    replace: 'at > (seen ?? 0)',
    suites: ['test/unit/control-events.test.ts'],
  },
  {
    name: 'a gateway that is not of this node is told that it is unknown, as if it should try again',
    file: 'src/http/routes/registry.ts',
    find: "refuse(reply, 'node-foreign', ",
    replace: "refuse(reply, 'node-unknown', ",
    suites: ['test/conformance/control-gateways.test.ts'],
  },
]
