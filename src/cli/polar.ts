// The `polar` command line: which command takes which options. A command's code is loaded when it runs.
import { readFileSync } from 'node:fs'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { DriftOptions } from './doctor.ts'
import type { AddOptions, EnginesOptions } from './engines.ts'
import { EXIT } from './exit.ts'
import type { ServeOptions } from './serve.ts'
import type { StatusOptions } from './status.ts'
import type { SubmitOptions } from './submit.ts'

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

const ENGINES = ['vllm', 'sglang', 'sglang-native', 'llamacpp']
const TOKEN_HELP = 'control token (else from the URL, POLAR_CONTROL_PLANE_TOKEN, or the file that serve keeps it in)'

// Before the commands: they inherit it.
program.exitOverride((error) => {
  // Commander has printed what is wrong; help and version are no errors.
  process.exit(error.exitCode === 0 ? EXIT.ok : EXIT.usage)
})
program
  .command('serve')
  .description('run the node: control API, gateways, proxy pool')
  .option('-c, --config <file>', 'polar.yaml; without it every default applies')
  .option('--engine-url <url>', 'inference server for gateways that name none; where none is named at all, the embedded engine serves')
  .addOption(new Option('--engine <kind>', 'what that engine is (default sglang)').choices(ENGINES))
  .option('--json', 'one JSON line per event')
  .action(async (options: ServeOptions) => {
    const { runServe } = await import('./serve.ts')
    process.exitCode = await runServe(options)
  })

program
  .command('submit')
  .description('submit a task (JSON or YAML), follow its sessions, say how each ended')
  .argument('<file>', 'the TaskRequest')
  .option('-c, --config <file>', 'polar.yaml of the node: gives its address and token')
  .option('--rollout-url <url>', 'address of the node, with or without the token: http://polar:TOKEN@host:8080')
  .option('--token <token>', TOKEN_HELP)
  .option('--no-wait', 'return as soon as the task is accepted')
  .option('--poll-interval <seconds>', 'between two looks at a silent task', seconds, 2)
  .option('--json', 'one JSON line per event')
  .action(async (file: string, options: SubmitOptions) => {
    const { runSubmit } = await import('./submit.ts')
    process.exitCode = await runSubmit(file, options)
  })

program
  .command('status')
  .description('gateways, replicas and tasks of a node, or the sessions of one task')
  .argument('[task]', 'task id')
  .option('-c, --config <file>', 'polar.yaml of the node: gives its address and token')
  .option('--rollout-url <url>', 'address of the node, with or without the token: http://polar:TOKEN@host:8080')
  .option('--token <token>', TOKEN_HELP)
  .option('--json', 'the answer as JSON')
  .action(async (task: string | undefined, options: StatusOptions) => {
    const { runStatus } = await import('./status.ts')
    process.exitCode = await runStatus(task, options)
  })

const engines = program.command('engines').description('inference servers of a running node: list, add, remove')

withTarget(engines.command('list', { isDefault: true }).description('each gateway’s servers, and what is known of them')).action(
  async (options: EnginesOptions) => {
    const { listEngines } = await import('./engines.ts')
    process.exitCode = await listEngines(options)
  },
)

withTarget(
  engines.command('add').description('serve from one more server, once it has answered its probe').argument('<url>', 'its address'),
)
  .addOption(new Option('--engine <kind>', 'what it is').choices(ENGINES).makeOptionMandatory())
  .option('--id <name>', 'its name (default: made of host and port)')
  .option('--max-in-flight <n>', 'calls at once, of all gateways that get it together (default 64)', wholeNumber)
  .option('--max-waiting <n>', 'calls that may wait for it, on each gateway (default 256)', wholeNumber)
  .option('--data-parallel-ranks <n>', 'ranks behind the one address, each called by header', wholeNumber)
  .option('--router', 'it is an SGLang router: its workers are called, and followed')
  .action(async (url: string, options: AddOptions) => {
    const { addEngine } = await import('./engines.ts')
    process.exitCode = await addEngine(url, options)
  })

withTarget(
  engines.command('remove').description('no new call goes there; calls in flight end by themselves').argument('<id>', 'its name'),
).action(async (id: string, options: EnginesOptions) => {
  const { removeEngine } = await import('./engines.ts')
  process.exitCode = await removeEngine(id, options)
})

program
  .command('engine')
  .description('run a model on the CPU, or a scripted engine, in the wire shape of vLLM, SGLang or llama.cpp')
  .option('--host <host>', 'address to listen on (default 127.0.0.1)')
  .option('--port <port>', '0 takes a free one; replicas take the next ones (default 0)')
  .option('--shape <shape>', 'vllm, sglang or llamacpp (default vllm)')
  .option('--seed <n>', 'of everything that is drawn (default 0)')
  .option('--model <name>', 'name of the served model (default the file’s, or qwen3-scripted)')
  .option('--max-model-len <tokens>', 'longest context (default the model’s as memory allows, or 131072 scripted)')
  .optionsGroup('A model:')
  .option('--model-path <file>', 'any GGUF file (default the built-in tiny policy)')
  .option('--sequences <n>', 'generations at once (default 8)')
  .option('--threads <n>', 'CPU threads of one step (default 1)')
  .option('--weight-version <name>', 'what these weights are called (default "default")')
  .optionsGroup('A scripted engine:')
  .option('--scripted', 'answers from a script or a seeded generator, with exact token ids')
  .option('--script <file>', 'YAML or JSON, as examples/demo/script.yaml; without it a seeded generator answers')
  .option('--replicas <n>', 'engines on consecutive ports (default 1)')
  .option('--ttft-ms <ms>', 'time to the first token (default 0)')
  .option('--ms-per-token <ms>', 'time per token (default 0)')
  .option('--concurrency <n>', 'generations at once (default 256)')
  .option('--fault <fault...>', 'go wrong on purpose: <name> or <name>:<times>; an unknown name lists all')
  .action(async (options: Readonly<Record<string, unknown>>) => {
    const { runEngineCommand } = await import('./engine.ts')
    process.exitCode = await runEngineCommand(options)
  })

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
    const { runDrift } = await import('./doctor.ts')
    process.exitCode = await runDrift(options)
  })

await program.parseAsync()

function withTarget(command: Command): Command {
  return command
    .option('-g, --gateway <id>', 'of this gateway only')
    .option('-c, --config <file>', 'polar.yaml of the node: gives its address and token')
    .option('--rollout-url <url>', 'address of the node, with or without the token: http://polar:TOKEN@host:8080')
    .option('--token <token>', TOKEN_HELP)
    .option('--json', 'the answer as JSON')
}

function readVersion(): string {
  const { version }: { readonly version: string } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'))
  return version
}

function seconds(text: string): number {
  const value = Number(text)
  if (!Number.isFinite(value) || value <= 0) throw new InvalidArgumentError('a positive number of seconds is needed')
  return value
}

function wholeNumber(text: string): number {
  const value = Number(text)
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('a whole number from 1 on is needed')
  return value
}
