// Worker that runs one evaluation by one of the operator's modules: `evaluate(context)`, and `check(spec)` where it has one.
import { pathToFileURL } from 'node:url'
import { parentPort, workerData } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import type { CustomBirth, SandboxDesk, WhichSandbox } from '../evaluators/custom-protocol.ts'
import type { Evaluation, EvaluationContext, Evaluator, EvaluatorSandbox } from '../evaluators/evaluator.ts'

/** What a module may export; `evaluate` it must. */
type Exports = { readonly [K in 'check' | 'evaluate']?: Evaluator[K] }

// Set by evaluators/custom.ts, the only one that starts this worker.
const { modulePath, facts, desk: port } = workerData as CustomBirth
const desk = comlink.wrap<SandboxDesk>(nodeEndpoint(port))

const sandboxOf = (which: WhichSandbox): EvaluatorSandbox => ({
  exec: (command, timeoutMs) => desk.exec(which, command, timeoutMs),
  writeFile: (path, content) => desk.writeFile(which, path, content),
  readFile: (path, maxBytes) => desk.readFile(which, path, maxBytes),
})

const context: EvaluationContext = {
  ...facts,
  agentSandbox: sandboxOf('agent'),
  freshSandbox: async () => {
    const opened = await desk.open()
    return opened.ok ? { ok: true, value: sandboxOf('fresh') } : opened
  },
}

async function evaluate(): Promise<Evaluation> {
  try {
    const exports: Exports = await import(pathToFileURL(modulePath).href)
    if (typeof exports.evaluate !== 'function') return failed(`${modulePath} exports no function 'evaluate'`, '')
    const problem = exports.check?.(facts.spec) ?? null
    if (problem !== null) return failed(`the evaluator's configuration is not valid: ${problem}`, '')
    return await exports.evaluate(context)
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error), error instanceof Error ? (error.stack ?? '') : '')
  }
}

function failed(error: string, log: string): Evaluation {
  return { type: 'failed', error, log }
}

parentPort?.postMessage(await evaluate())
port.close()
