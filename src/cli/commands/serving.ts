// The commands that run a node, or say how this one does what Polar has separate processes for.
import { type Command, Option } from 'commander'
import { ENGINES } from '../options.ts'
import type { ServeOptions } from '../serve.ts'

export function servingCommands(program: Command): void {
  program
    .command('serve')
    .description('run the node: control API, gateways, proxy pool')
    .option('-c, --config <file>', 'polar.yaml; without it every default applies')
    .option('--engine-url <url>', 'inference server for gateways that name none; where none is named at all, the embedded engine serves')
    .addOption(new Option('--engine <kind>', 'what that engine is (default sglang)').choices(ENGINES))
    .option('--json', 'one JSON line per event')
    .action(async (options: ServeOptions) => {
      const { runServe } = await import('../serve.ts')
      process.exitCode = await runServe(options)
    })
}
