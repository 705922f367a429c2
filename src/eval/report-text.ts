// The report of an evaluation as a person reads it: the scores, what became of the sessions, and the tasks.
import type { EvalReport } from './report.ts'

const MAX_NAME = 48

export function describeEval(report: EvalReport): string {
  const { dataset, run, sessions, classes } = report
  const scores = report.pass_at_k.map(
    ({ k, value, low, high }) => `${`  pass@${k}`.padEnd(14)}${percent(value)}   [${percent(low)}, ${percent(high)}]`,
  )
  const failures = Object.entries(classes).filter(([name, count]) => name !== 'policy' && count > 0)
  const width = Math.min(MAX_NAME, Math.max(4, ...report.tasks.map(({ name }) => name.length)))
  const lines = [
    `${dataset.name}: ${dataset.tasks} tasks × ${run.samples} samples = ${sessions} sessions${run.name === '' ? '' : `, run ${run.name}`}`,
    `sha256 ${dataset.sha256}`,
    '',
    ...scores,
    `  mean reward ${round(report.mean_reward)}`,
    `  (every session counts; a success is a reward of ${report.threshold} or more; ${report.interval})`,
    '',
    `outcomes: ${Object.entries(report.outcomes)
      .map(([name, count]) => `${name} ${count}`)
      .join(', ')}`,
    failures.length === 0
      ? 'no session failed for a reason that is not the policy’s'
      : `not the policy’s, and counted as 0: ${failures.map(([name, count]) => `${name} ${count}`).join(', ')}`,
    '',
    `${'task'.padEnd(width)}  passed  mean reward`,
    ...report.tasks.map(
      ({ name, successes, mean_reward }) =>
        `${shorten(name, width).padEnd(width)}  ${`${successes}/${run.samples}`.padEnd(6)}  ${round(mean_reward)}`,
    ),
  ]
  return `${lines.join('\n')}\n`
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`.padStart(7)
}

function round(value: number): string {
  return String(Math.round(value * 1_000) / 1_000)
}

function shorten(name: string, width: number): string {
  return name.length <= width ? name : `${name.slice(0, width - 1)}…`
}
