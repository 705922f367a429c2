// The commands that find out what a run would give.
import { type Command, Option } from 'commander'
import type { DriftOptions } from '../doctor.ts'
import { ENGINES, wholeNumber } from '../options.ts'

export function doctorCommands(program: Command): void {
  const doctor = program.command('doctor').description('find out before a run whether it will give what it should')

  doctor
    .command('drift')
    .description('run a few tasks: do the token chains stay whole, and which setting mends what breaks them')
    .option('-c, --config <file>', 'polar.yaml with the engines and model profiles; its data folder and ports are left alone')
    .option('--engine-url <url>', 'inference engine, where the configuration names none')
    .addOption(new Option('--engine <kind>', 'what that engine is (default sglang)').choices(ENGINES))
    .option('--harness <names>', 'comma-separated; default: those of the tasks, or all that are installed')
    .option('--model <name>', 'model to ask the engine for, and the name that agents ask by')
    .option('--tasks <file>', 'a TaskRequest or a list of them, JSON or YAML; default: three small tasks')
    .option('--samples <n>', 'sessions of each task for each harness', wholeNumber, 1)
    .option('--json', 'the report as one JSON object')
    .action(async (options: DriftOptions) => {
      const { runDrift } = await import('../doctor.ts')
      process.exitCode = await runDrift(options)
    })
}
