// The commands about tasks and their sessions on a running node.
import type { Command } from 'commander'
import type { EvalOptions } from '../eval.ts'
import { finiteNumber, naturalNumber, seconds, wholeNumber, wholeNumbers, withTarget } from '../options.ts'
import type { StatusOptions } from '../status.ts'
import type { SubmitOptions } from '../submit.ts'

export function taskCommands(program: Command): void {
  withTarget(
    program
      .command('submit')
      .description('submit a task (JSON or YAML), follow its sessions, say how each ended')
      .argument('<file>', 'the TaskRequest'),
    'one JSON line per event',
  )
    .option('--no-wait', 'return as soon as the task is accepted')
    .option('--poll-interval <seconds>', 'between two looks at a silent task', seconds, 2)
    .action(async (file: string, options: SubmitOptions) => {
      const { runSubmit } = await import('../submit.ts')
      process.exitCode = await runSubmit(file, options)
    })

  withTarget(
    program
      .command('status')
      .description('gateways, replicas and tasks of a node, or the sessions of one task')
      .argument('[task]', 'task id'),
  ).action(async (task: string | undefined, options: StatusOptions) => {
    const { runStatus } = await import('../status.ts')
    process.exitCode = await runStatus(task, options)
  })

  withTarget(
    program
      .command('eval')
      .description('every task of a file, a number of times: how often does the policy succeed')
      .argument('<file>', 'TaskRequests: JSON lines, a JSON or YAML list, or { template, instances }'),
    'the report as one JSON object',
  )
    .option('--samples <n>', 'sessions of each task', wholeNumber, 1)
    .option('--k <list>', 'of which pass@k is told, comma-separated (default 1 and the samples)', wholeNumbers)
    .option('--seed-base <n>', 'added to the seed of every task', naturalNumber, 0)
    .option('--concurrency <n>', 'tasks at a time', wholeNumber, 8)
    .option('--threshold <reward>', 'a reward of this or more is a success', finiteNumber, 1)
    .option('--name <name>', 'of this run: another name is another run of the same file; the same one goes on', '')
    .option('--sha256 <hex>', 'refuse any other file')
    .option('--out <file>', 'write the report there, and until then what is known beside it')
    .option('--poll-interval <seconds>', 'between two looks at a silent task', seconds, 2)
    .action(async (file: string, options: EvalOptions) => {
      const { runEvalCommand } = await import('../eval.ts')
      process.exitCode = await runEvalCommand(file, options)
    })
}
