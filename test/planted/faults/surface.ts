// Broken rules at the node's edges: who may ask, where callbacks go, what may be uploaded, what dies with a sandbox.
import type { PlantedFault } from '../fault.ts'

export const SURFACE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a callback may go to a link-local address',
    file: 'src/actors/callback/target.ts',
    find: "FORBIDDEN.addSubnet('169.254.0.0', 16, 'ipv4')\n",
    replace: '',
    suites: ['test/unit/callback-target.test.ts'],
  },
  {
    name: 'a name may resolve to an address where callbacks may not go',
    file: 'src/actors/callback/transport.ts',
    find: 'addresses.filter(({ address }: LookupAddress) => !isForbiddenAddress(address))',
    replace: 'addresses.filter(({ address }: LookupAddress) => address !== "")',
    suites: ['test/conformance/callback-lookup.test.ts'],
  },
  {
    name: 'the beginning of the control token is taken for the whole',
    file: 'src/http/token.ts',
    find: "timingSafeEqual(createHash('sha256').update(presented).digest(), createHash('sha256').update(token).digest())",
    replace: 'token.startsWith(presented)',
    suites: ['test/unit/control-token.test.ts'],
  },
  {
    name: 'a control route is open without the token',
    file: 'src/http/control-api.ts',
    find: "const isOpen = request.routeOptions.url === '/health'",
    replace: "const isOpen = request.routeOptions.url === '/health' || request.routeOptions.url === '/nodes'",
    suites: ['test/conformance/control-api.test.ts'],
  },
  {
    name: 'the control token’s file is readable by others',
    file: 'src/http/token.ts',
    find: "open(draft, 'wx', 0o600)",
    replace: "open(draft, 'wx', 0o644)",
    suites: ['test/unit/control-token.test.ts'],
  },
  {
    name: 'a file outside the upload roots is uploaded',
    file: 'src/runtime/upload.ts',
    find: 'if (real === null || !roots.some((root) => root !== null && isUnder(real, root))) {',
    replace: 'if (real === null) {',
    suites: ['test/faults/runtime-local.test.ts'],
    tests: 'at the first attempt',
  },
  {
    name: 'a kill misses children in sessions of their own',
    file: 'src/runtime/process-tree.ts',
    find: 'if (`\\0',
    replace: 'if (false && `\\0',
    suites: ['test/faults/runtime-local.test.ts'],
    tests: 'of a command ends a double fork',
  },
  {
    name: 'a death by signal is told as an exit code',
    file: 'src/runtime/supervisor.ts',
    find: "return { type: 'signalled', signal: name ??",
    replace: "return value > 0 ? { type: 'exited', code: 128 + value } : { type: 'signalled', signal: name ??",
    suites: ['test/unit/runtime-local-facts.test.ts'],
  },
]
