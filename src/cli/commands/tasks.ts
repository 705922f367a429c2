// The commands about tasks and their sessions on a running node.
import { type Command, Option } from 'commander'
import type { CaptureOptions } from '../capture.ts'
import type { EvalOptions } from '../eval.ts'
import { finiteNumber, naturalNumber, seconds, wholeNumber, wholeNumbers, withTarget } from '../options.ts'
import type { StatusOptions } from '../status.ts'
import type { SubmitOptions } from '../submit.ts'
import type { CancelOptions, SessionsOptions, TasksOptions } from '../tasks.ts'

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

  withTarget(program.command('tasks').description('tasks of a node, the latest first'))
    .addOption(new Option('--status <status>', 'only these').choices(['running', 'cancelling', 'cancelled', 'completed', 'failed']))
    .option('--harness <name>', 'only those of this agent CLI')
    .option('--since <seconds>', 'only those that changed since then, in seconds since 1970', finiteNumber)
    .option('--limit <n>', 'at most so many', wholeNumber, 200)
    .action(async (options: TasksOptions) => {
      const { listTasks } = await import('../tasks.ts')
      process.exitCode = await listTasks(options)
    })

  withTarget(program.command('sessions').description('sessions of a node, or of one task, the latest first').argument('[task]', 'task id'))
    .option('--status <status>', 'only these: REGISTERED … COMPLETED, ERROR, TIMEOUT, or active')
    .option('-g, --gateway <id>', 'of this gateway only')
    .option('--limit <n>', 'at most so many', wholeNumber, 200)
    .action(async (task: string | undefined, options: SessionsOptions) => {
      const { listSessions } = await import('../tasks.ts')
      process.exitCode = await listSessions(task, options)
    })

  withTarget(
    program.command('cancel').description('end a task: its sessions are stopped, what they captured is kept').argument('<task>', 'task id'),
  )
    .option('--register-if-missing', 'also refuse a task of this id that is submitted within five minutes')
    .action(async (task: string, options: CancelOptions) => {
      const { cancelTask } = await import('../tasks.ts')
      process.exitCode = await cancelTask(task, options)
    })

  withTarget(program.command('capture').description('capture the model calls of an agent that this node does not start'))
    .option('--run <command>', 'run this with the model’s address and key, then end the capture and say what it holds')
    .option('--finish <session>', 'end an open capture and say what it holds')
    .option('--reward <number>', 'its grade, when it ends', finiteNumber)
    .option('--task <id>', 'the task that its result names (default: the session’s own id)')
    .option('--evaluation', 'to be judged and not trained: an engine without token ids will do')
    .option('-g, --gateway <id>', 'at this gateway (default: the least loaded)')
    .action(async (options: CaptureOptions) => {
      const { runCapture } = await import('../capture.ts')
      process.exitCode = await runCapture(options)
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
