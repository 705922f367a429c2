// The commands about inference: the servers of a running node, and engines of our own.
import { type Command, Option } from 'commander'
import type { AddOptions, EnginesOptions } from '../engines.ts'
import { ENGINES, seconds, wholeNumber, withTarget } from '../options.ts'
import type { PauseOptions } from '../pauses.ts'

export function inferenceCommands(program: Command): void {
  const engines = program.command('engines').description('inference servers of a running node: list, add, remove')

  ofGateway(engines.command('list', { isDefault: true }).description('each gateway’s servers, and what is known of them')).action(
    async (options: EnginesOptions) => {
      const { listEngines } = await import('../engines.ts')
      process.exitCode = await listEngines(options)
    },
  )

  ofGateway(
    engines.command('add').description('serve from one more server, once it has answered its probe').argument('<url>', 'its address'),
  )
    .addOption(new Option('--engine <kind>', 'what it is').choices(ENGINES).makeOptionMandatory())
    .option('--id <name>', 'its name (default: made of host and port)')
    .option('--max-in-flight <n>', 'calls at once, of all gateways that get it together (default 64)', wholeNumber)
    .option('--max-waiting <n>', 'calls that may wait for it, on each gateway (default 256)', wholeNumber)
    .option('--data-parallel-ranks <n>', 'ranks behind the one address, each called by header', wholeNumber)
    .option('--router', 'it is an SGLang router: its workers are called, and followed')
    .action(async (url: string, options: AddOptions) => {
      const { addEngine } = await import('../engines.ts')
      process.exitCode = await addEngine(url, options)
    })

  ofGateway(
    engines.command('remove').description('no new call goes there; calls in flight end by themselves').argument('<id>', 'its name'),
  ).action(async (id: string, options: EnginesOptions) => {
    const { removeEngine } = await import('../engines.ts')
    process.exitCode = await removeEngine(id, options)
  })

  ofGateway(program.command('pause').description('hold every model call while weights are updated; agents wait and notice nothing'))
    .option('--timeout <seconds>', 'how long calls in flight may take to end (default 300); else nothing is held', seconds)
    .action(async (options: PauseOptions) => {
      const { pauseInference } = await import('../pauses.ts')
      process.exitCode = await pauseInference(options)
    })

  ofGateway(program.command('resume').description('let the model calls go on')).action(async (options: PauseOptions) => {
    const { resumeInference } = await import('../pauses.ts')
    process.exitCode = await resumeInference(options)
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
      const { runEngineCommand } = await import('../engine.ts')
      process.exitCode = await runEngineCommand(options)
    })
}

function ofGateway(command: Command): Command {
  return withTarget(command.option('-g, --gateway <id>', 'of this gateway only'))
}
