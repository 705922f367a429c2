// The commands about results: those that are final, and how their trainers get them.
import { type Command, Option } from 'commander'
import type { ListOptions, RedriveOptions } from '../callbacks.ts'
import { wholeNumber, withTarget } from '../options.ts'
import type { ResultsOptions } from '../results.ts'

const STATES = ['pending', 'dead', 'delivered', 'none']

export function resultCommands(program: Command): void {
  withTarget(
    program.command('results').description('results that are final and tasks that have ended, oldest first'),
    'one JSON line per result or task',
  )
    .option('--after <cursor>', 'only what came later; "latest": only what comes')
    .option('--follow', 'and what comes, until it is stopped')
    .option('--save <folder>', 'write each result to task_<id>/ses_<id>.json below it')
    .action(async (options: ResultsOptions) => {
      const { runResults } = await import('../results.ts')
      process.exitCode = await runResults(options)
    })

  const callbacks = program.command('callbacks').description('deliveries of results to trainers: list, redrive')

  withTarget(callbacks.command('list', { isDefault: true }).description('what became of each, the newest first'))
    .addOption(new Option('--state <state>', 'only these').choices(STATES))
    .option('--limit <n>', 'at most so many', wholeNumber, 200)
    .action(async (options: ListOptions) => {
      const { listCallbacks } = await import('../callbacks.ts')
      process.exitCode = await listCallbacks(options)
    })

  withTarget(
    callbacks
      .command('redrive')
      .description('deliver again: these tasks, or all that are not delivered')
      .argument('[task...]', 'their ids; whatever became of them'),
  )
    .option('--url <url>', 'where to, from now on (default: where each was to go)')
    .addOption(new Option('--state <state>', 'all in this state').choices(STATES))
    .option('--session <id...>', 'sessions by themselves')
    .action(async (tasks: readonly string[], options: RedriveOptions) => {
      const { redriveCallbacks } = await import('../callbacks.ts')
      process.exitCode = await redriveCallbacks(tasks, options)
    })
}
