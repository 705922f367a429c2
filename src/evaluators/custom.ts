// Evaluators of the operator's own, each run in a worker thread that is killed at its deadline. A thread ends with the node whatever
// the module does, which a process would not; in return one huge allocation past the heap limit can abort the node.
import { existsSync } from 'node:fs'
import { isAbsolute } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MessageChannel, Worker } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { z } from 'zod'
import { moduleBeside } from '../kernel/thread.ts'
import type { CustomFacts, SandboxDesk } from './custom-protocol.ts'
import type { Evaluation, EvaluationContext, Evaluator, EvaluatorSandbox } from './evaluator.ts'

const HEAP_MB = 512
const MAX_LOG = 8000

const evaluationSchema = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('graded'),
    outcomeReward: z.number().nullable(),
    traceRewards: z.array(z.number()).nullable().default(null),
    metadata: z.record(z.string(), z.unknown()).default({}),
  }),
  z.object({ type: z.literal('failed'), error: z.string(), log: z.string().default('') }),
])

/** Throws when there is no such module: the node must not start. */
export function customEvaluator(name: string, modulePath: string): Evaluator {
  if (!isAbsolute(modulePath) || !existsSync(modulePath))
    throw new Error(`custom evaluator '${name}': there is no module at '${modulePath}'`)
  return {
    name,
    // The module's own `check` runs in the worker before `evaluate`: an operator's code must not be able to hold up a submit.
    check: () => null,
    evaluate: (context) => evaluateInWorker(name, modulePath, context),
  }
}

async function evaluateInWorker(name: string, modulePath: string, context: EvaluationContext): Promise<Evaluation> {
  const { port1: ownPort, port2: itsPort } = new MessageChannel()
  comlink.expose(deskOf(context), nodeEndpoint(ownPort))
  const worker = new Worker(moduleBeside('../tasks/custom-evaluator', import.meta.url), {
    workerData: { modulePath, facts: factsOf(context), desk: itsPort },
    transferList: [itsPort],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
    stdout: true,
    stderr: true,
  })
  let log = ''
  const keep = (text: Buffer): void => {
    log = (log + text.toString('utf8')).slice(-MAX_LOG)
  }
  worker.stdout.on('data', keep)
  worker.stderr.on('data', keep)
  const patience = new AbortController()
  try {
    const said = await Promise.race([
      new Promise<Evaluation>((resolve) => {
        worker.once('message', (answer: unknown) => resolve(parseAnswer(name, answer)))
        worker.once('error', (error) => resolve({ type: 'failed', error: `evaluator '${name}' crashed: ${textOf(error)}`, log: '' }))
        worker.once('exit', (code) =>
          resolve({ type: 'failed', error: `evaluator '${name}' ended with code ${code} and no answer`, log: '' }),
        )
      }),
      delay(context.timeoutMs, undefined, { signal: patience.signal }).then(
        (): Evaluation => ({ type: 'failed', error: `evaluator '${name}' gave no answer within ${context.timeoutMs} ms`, log: '' }),
      ),
    ])
    return said.type === 'failed' ? { ...said, log: said.log + log } : said
  } finally {
    patience.abort()
    ownPort.close()
    await worker.terminate()
  }
}

function parseAnswer(name: string, answer: unknown): Evaluation {
  const parsed = evaluationSchema.safeParse(answer)
  if (parsed.success) return parsed.data
  return { type: 'failed', error: `evaluator '${name}' gave no valid evaluation: ${z.prettifyError(parsed.error)}`, log: '' }
}

function factsOf(context: EvaluationContext): CustomFacts {
  const { spec, sessionId, taskId, outcome, exitCode, traceCount, timeoutMs } = context
  return { spec, sessionId, taskId, outcome, exitCode, traceCount, timeoutMs }
}

/** The worker's side may call these at any time until its port closes. */
function deskOf(context: EvaluationContext): SandboxDesk {
  let fresh: ReturnType<EvaluationContext['freshSandbox']> | null = null
  async function use<T>(which: 'agent' | 'fresh', act: (sandbox: EvaluatorSandbox) => Promise<T>) {
    if (which === 'agent') return act(context.agentSandbox)
    fresh ??= context.freshSandbox()
    const started = await fresh
    return started.ok ? act(started.value) : started
  }
  return {
    open: async () => {
      const opened = await use('fresh', async () => null)
      return opened === null ? { ok: true, value: null } : opened
    },
    exec: (which, command, timeoutMs) => use(which, (sandbox) => sandbox.exec(command, timeoutMs)),
    writeFile: (which, path, content) => use(which, (sandbox) => sandbox.writeFile(path, content)),
    readFile: (which, path, maxBytes) => use(which, (sandbox) => sandbox.readFile(path, maxBytes)),
  }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
