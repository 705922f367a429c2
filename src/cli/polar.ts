// The `polar` command line. Which command takes which options stands in `commands/`; a command's code is loaded when it runs.
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { doctorCommands } from './commands/doctor.ts'
import { inferenceCommands } from './commands/inference.ts'
import { resultCommands } from './commands/results.ts'
import { servingCommands } from './commands/serving.ts'
import { taskCommands } from './commands/tasks.ts'
import { EXIT } from './exit.ts'

// Whoever read the output may be gone (`| head`): no node dies of that, and a task's exit code still tells how it ended.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})

const program = new Command('polar')
  .version(readVersion(), '-V, --version', 'print the version')
  .description('Rollouts of unmodified agent CLIs, with every token they saw and sampled.')
  .showHelpAfterError('(polar <command> --help shows the options)')
  .addHelpText(
    'after',
    '\nExit codes: 0 done, 1 it ran and did not succeed, 2 the command or its files are wrong, 3 the node gave no answer.',
  )

// Before the commands: they inherit it.
program.exitOverride((error) => {
  // Commander has printed what is wrong; help and version are no errors.
  process.exit(error.exitCode === 0 ? EXIT.ok : EXIT.usage)
})
servingCommands(program)
taskCommands(program)
resultCommands(program)
inferenceCommands(program)
doctorCommands(program)

await program.parseAsync()

function readVersion(): string {
  const { version }: { readonly version: string } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}
