// What the sandbox host promises about processes and places, with a runtime whose every step the test ends.
import { afterEach, describe, expect, it } from 'vitest'
import { evaluatorActor } from '../../src/actors/evaluator/actor.ts'
import type { EvaluatorCommand, EvaluatorReply } from '../../src/actors/evaluator/protocol.ts'
import { sandboxHost } from '../../src/actors/sandbox/actor.ts'
import type { SandboxCommand, SandboxFact, SandboxPurpose, StartedSandbox } from '../../src/actors/sandbox/protocol.ts'
import { gatewayId, knownSessionId, type SandboxId, sandboxId, taskId } from '../../src/contract/ids.ts'
import { type Address, threadId } from '../../src/kernel/address.ts'
import type { Answer, Ask } from '../../src/kernel/ask.ts'
import type { Kernel } from '../../src/kernel/kernel.ts'
import { openKernel } from '../../src/kernel/machine.ts'
import { openWorld } from '../../src/kernel/world.ts'
import type { KeptLogs } from '../../src/runtime/kept-logs.ts'
import type { Fallible, ProcessExit, ProcessRef, Runtime, SandboxRef } from '../../src/runtime/runtime.ts'
import { taskRequest } from '../lib/specs.ts'

const SESSION = knownSessionId('sk-polar-1')
const closers: Kernel[] = []

afterEach(async () => {
  for (const kernel of closers.splice(0)) await kernel.close()
})

/** Starts and launches last until the test ends them. */
function openBench(logs: KeptLogs | null = null, isKillable = true) {
  const world = openWorld({ seed: 1 })
  const kernel = openKernel({ thread: threadId('control'), incarnation: 1, scheduler: world, random: world.random, peers: 0 })
  closers.push(kernel)
  const log: string[] = []
  const starts: (() => void)[] = []
  const launches: (() => void)[] = []
  let sandboxes = 0
  const unused = async (): Promise<never> => {
    throw new Error('not used here')
  }
  const runtime: Runtime = {
    backend: 'local',
    isolation: 'container',
    async start({ labels }) {
      const id = `box-${++sandboxes}`
      log.push(`start ${id}`)
      await new Promise<void>((resolve) => starts.push(resolve))
      const sandbox: SandboxRef = { backend: 'local', id, labels, folder: '', workdir: '/', home: '/' }
      return { ok: true, value: { sandbox, notes: [] } }
    },
    async launch(sandbox) {
      await new Promise<void>((resolve) => launches.push(resolve))
      log.push(`run ${sandbox.id}`)
      return { ok: true, value: { sandbox: sandbox.id, pid: 1, startTicks: 0, stdoutFile: '', stderrFile: '', statusFile: '' } }
    },
    wait: () => new Promise<ProcessExit>(() => {}),
    async kill(process: ProcessRef) {
      log.push(`kill ${process.sandbox}`)
      return isKillable
    },
    async stop(sandbox, { keepLogs }) {
      log.push(`stop ${sandbox.id}${keepLogs === null ? '' : `, logs to ${keepLogs}`}`)
    },
    exec: unused,
    prepare: unused,
    writeFile: unused,
    readFile: unused,
    list: unused,
    attach: unused,
    modelUrl: () => '',
  }
  const host = kernel.spawn(
    sandboxHost({
      runtimes: new Map([['local', runtime]]),
      logs,
      tailBytes: 10,
      readTail: async () => ({ text: '', truncated: false }),
    }),
  )
  return { world, kernel, host, log, starts, launches }
}

const spec = taskRequest().runtime ?? undefined

async function startSandbox(bench: ReturnType<typeof openBench>, purpose: SandboxPurpose = 'agent'): Promise<SandboxId> {
  if (spec === undefined) throw new Error('a runtime is given')
  const started = bench.kernel.ask<SandboxCommand, Fallible<StartedSandbox>>(
    bench.host,
    (ask) => ({ type: 'start-sandbox', gateway: gatewayId('g'), session: SESSION, attempt: 1, purpose, spec, env: {}, ask }),
    1_000,
  )
  await bench.world.advance(0)
  bench.starts.shift()?.()
  await bench.world.advance(0)
  const answer = await started
  if (!answer.ok) throw new Error(answer.error)
  if (!answer.value.ok) throw new Error(answer.value.error.detail)
  return answer.value.value.sandbox
}

/** Under way until the test ends it: see `launches`. */
async function beginLaunch(bench: ReturnType<typeof openBench>, sandbox: SandboxId): Promise<void> {
  const listener: Address<SandboxFact> = bench.kernel.spawn({ name: 'listener', capacity: 1, create: () => ({ receive() {} }) })
  void bench.kernel.ask<SandboxCommand, Fallible<void>>(
    bench.host,
    (ask) => ({ type: 'launch', sandbox, command: { command: 'agent', env: {}, label: 'agent' }, logs: [], notify: listener, ask }),
    1_000,
  )
  await bench.world.advance(0)
}

/** The answer so far: null while there is none. */
function watch<R>(answer: Promise<Answer<R>>): { readonly read: () => Answer<R> | null } {
  let got: Answer<R> | null = null
  void answer.then((value) => {
    got = value
  })
  return { read: () => got }
}

describe('the sandbox host', () => {
  it('does not call a kill done while something of the tree lives', async () => {
    const bench = openBench(null, false)
    const sandbox = await startSandbox(bench)
    await beginLaunch(bench, sandbox)
    bench.launches.shift()?.()
    const killed = watch(
      bench.kernel.ask<SandboxCommand, Fallible<void>>(bench.host, (ask) => ({ type: 'kill-process', sandbox, graceMs: 10, ask }), 1_000),
    )
    await bench.world.advance(0)
    expect(killed.read()).toMatchObject({ ok: true, value: { ok: false, error: { code: 'timeout' } } })
  })

  it.each([
    ['kill-process', 'kill box-1'],
    ['stop-sandbox', 'stop box-1'],
  ] as const)('lets %s wait for a launch that is under way, so that nothing runs afterwards', async (type, last) => {
    const bench = openBench()
    const sandbox = await startSandbox(bench)
    await beginLaunch(bench, sandbox)
    const make = (ask: Ask<unknown>): SandboxCommand =>
      type === 'kill-process' ? { type, sandbox, graceMs: 10, ask } : { type, sandbox, ask }
    const ended = watch(bench.kernel.ask<SandboxCommand, unknown>(bench.host, make, 1_000))
    await bench.world.advance(100)
    expect(ended.read()).toBeNull()
    bench.launches.shift()?.()
    await bench.world.advance(0)
    expect(ended.read()?.ok).toBe(true)
    expect(bench.log).toEqual(['start box-1', 'run box-1', last])
  })
})

describe('the logs of a stopped sandbox', () => {
  it.each([
    ['agent', 'stop box-1, logs to /logs/sk-polar-1.1', ['sk-polar-1.1']],
    ['grader', 'stop box-1', []],
  ] as const)('of an %s: %s', async (purpose, expected, names) => {
    const kept: string[] = []
    const bench = openBench({ folderFor: (name) => `/logs/${name}`, keep: async (name) => void kept.push(name) })
    const sandbox = await startSandbox(bench, purpose)
    const stopped = watch(bench.kernel.ask<SandboxCommand, void>(bench.host, (ask) => ({ type: 'stop-sandbox', sandbox, ask }), 1_000))
    await bench.world.advance(0)
    expect(stopped.read()?.ok).toBe(true)
    expect(bench.log).toEqual(['start box-1', expected])
    expect(kept).toEqual(names)
  })
})

describe('a sandbox whose session ends while it starts', () => {
  it('is stopped as soon as it has started, and only then counts as gone', async () => {
    const { world, kernel, host, starts, log } = openBench()
    if (spec === undefined) throw new Error('a runtime is given')
    const started = watch(
      kernel.ask<SandboxCommand, Fallible<StartedSandbox>>(
        host,
        (ask) => ({ type: 'start-sandbox', gateway: gatewayId('g'), session: SESSION, attempt: 1, purpose: 'agent', spec, env: {}, ask }),
        1_000,
      ),
    )
    const stopped = watch(
      kernel.ask<SandboxCommand, void>(host, (ask) => ({ type: 'stop-attempt', session: SESSION, attempt: 1, ask }), 1_000),
    )
    await world.advance(0)
    expect([started.read(), stopped.read(), log]).toEqual([null, null, ['start box-1']])
    starts.shift()?.()
    await world.advance(0)
    expect(started.read()).toMatchObject({ ok: true, value: { ok: false, error: { code: 'sandbox-gone' } } })
    expect(stopped.read()?.ok).toBe(true)
    expect(log).toEqual(['start box-1', 'stop box-1'])
  })
})

describe('a sandbox host whose node is stopping', () => {
  it('starts nothing any more, not even for a session that has not heard of it', async () => {
    const bench = openBench()
    const stopped = watch(bench.kernel.ask<SandboxCommand, void>(bench.host, (ask) => ({ type: 'stop-all', ask }), 1_000))
    await bench.world.advance(0)
    expect(stopped.read()?.ok).toBe(true)
    await expect(startSandbox(bench)).rejects.toThrow('the node is stopping')
    expect(bench.log).toEqual([])
  })
})

describe('the evaluator', () => {
  it('answers at its deadline, and gives its grader place on only when a grader that starts late is gone', async () => {
    const bench = openBench()
    const { world, kernel } = bench
    const evaluator = kernel.spawn(
      evaluatorActor({
        kernel,
        sandboxes: bench.host,
        evaluators: {
          names: [],
          check: () => null,
          async evaluate({ freshSandbox }) {
            await freshSandbox()
            return { type: 'graded', outcomeReward: 1, traceRewards: null, metadata: {} }
          },
        },
        maxRunning: 1,
        teardownMs: 50,
      }),
    )
    const first = evaluate(kernel, evaluator, 1)
    const second = evaluate(kernel, evaluator, 2)
    await world.advance(1_000)
    expect(first.read()).toEqual({ ok: true, value: { type: 'timed-out', timeoutMs: 1_000 } })
    await world.advance(5_000)
    expect(bench.log).toEqual(['start box-1'])
    bench.starts.shift()?.()
    await world.advance(5_000)
    expect(bench.log).toEqual(['start box-1', 'stop box-1', 'start box-2'])
    bench.starts.shift()?.()
    await world.advance(0)
    expect(second.read()?.ok).toBe(true)
  })

  it.each<[string, (kernel: Kernel, evaluator: Address<EvaluatorCommand>) => void, number]>([
    ['timed out', () => {}, 1_000],
    ['was withdrawn', (kernel, evaluator) => kernel.tell(evaluator, { type: 'withdraw-evaluation', session: SESSION, attempt: 1 }), 0],
  ])('starts no grader for an evaluation that %s', async (_, end, ms) => {
    const bench = openBench()
    const { world, kernel } = bench
    const thinking = Promise.withResolvers<void>()
    const evaluator = kernel.spawn(
      evaluatorActor({
        kernel,
        sandboxes: bench.host,
        evaluators: {
          names: [],
          check: () => null,
          async evaluate({ freshSandbox }) {
            await thinking.promise
            const fresh = await freshSandbox()
            return { type: 'failed', error: fresh.ok ? 'started' : fresh.error.detail, log: '' }
          },
        },
        maxRunning: 1,
        teardownMs: 50,
      }),
    )
    evaluate(kernel, evaluator, 1)
    await world.advance(0)
    end(kernel, evaluator)
    await world.advance(ms)
    thinking.resolve()
    await world.advance(0)
    expect(bench.log).toEqual([])
  })

  it('never begins what was withdrawn while it waited for a place', async () => {
    const bench = openBench()
    const { world, kernel } = bench
    const begun: Promise<unknown>[] = []
    const evaluator = kernel.spawn(
      evaluatorActor({
        kernel,
        sandboxes: bench.host,
        evaluators: {
          names: [],
          check: () => null,
          evaluate({ freshSandbox }) {
            begun.push(freshSandbox())
            return new Promise(() => {})
          },
        },
        maxRunning: 1,
        teardownMs: 50,
      }),
    )
    for (const attempt of [1, 2, 3]) evaluate(kernel, evaluator, attempt)
    kernel.tell(evaluator, { type: 'withdraw-evaluation', session: SESSION, attempt: 2 })
    await world.advance(1_000)
    bench.starts.shift()?.()
    await world.advance(100)
    expect(begun).toHaveLength(2)
    expect(bench.log).toEqual(['start box-1', 'stop box-1', 'start box-2'])
  })
})

function evaluate(kernel: Kernel, evaluator: Address<EvaluatorCommand>, attempt: number) {
  if (spec === undefined) throw new Error('a runtime is given')
  return watch(
    kernel.ask<EvaluatorCommand, EvaluatorReply>(
      evaluator,
      (ask) => ({
        type: 'evaluate',
        gateway: gatewayId('g'),
        session: SESSION,
        task: taskId('t'),
        attempt,
        spec: { strategy: 'any', config: {}, env: {}, refresh_runtime: true },
        runtime: spec,
        // Never used by this evaluator.
        agentSandbox: sandboxId('none'),
        outcome: 'completed',
        exitCode: 0,
        traceCount: 1,
        timeoutMs: 1_000,
        ask,
      }),
      60_000,
    ),
  )
}
