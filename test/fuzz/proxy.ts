// Fuzzes the model boundary over real sockets: npm run fuzz:proxy -- --requests N --seed S [--engine vllm|sglang] [--only INDEX].
import { parseArgs } from 'node:util'
import { describeResult, describeRun } from './report.ts'
import { run } from './run.ts'

const PROGRESS_EVERY = 1_000

const values = readOptions()
const seed = whole('seed')
const only = values.only === undefined ? null : whole('only')
const { engine } = values
if (engine !== 'vllm' && engine !== 'sglang') refuse(`--engine is vllm or sglang, not ${engine}`)

let done = 0
let broken = 0
const report = await run({
  requests: whole('requests'),
  seed,
  engine,
  ...(only === null ? {} : { only }),
  onResult(result) {
    done += 1
    if (result.problem !== null) broken += 1
    if (only === null ? result.problem !== null && broken <= 5 : result.plan.index === only)
      process.stdout.write(`${describeResult(result)}\n`)
    if (done % PROGRESS_EVERY === 0) process.stdout.write(`${done} requests, ${broken} broken\n`)
  },
})
process.stdout.write(`${describeRun(report, seed)}\n`)
process.exitCode = report.problems.length === 0 ? 0 : 1

function readOptions() {
  try {
    return parseArgs({
      options: {
        requests: { type: 'string', default: '10000' },
        seed: { type: 'string', default: '1' },
        engine: { type: 'string', default: 'vllm' },
        only: { type: 'string' },
      },
    }).values
  } catch {
    return refuse('the options are --requests N, --seed S, --engine vllm|sglang, --only INDEX')
  }
}

function whole(name: 'requests' | 'seed' | 'only'): number {
  const value = Number(values[name])
  return Number.isSafeInteger(value) && value >= 0 ? value : refuse(`--${name} is a whole number, not ${values[name]}`)
}

function refuse(problem: string): never {
  process.stderr.write(`fuzz: ${problem}\n`)
  process.exit(2)
}
