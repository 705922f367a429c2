// The commands that run a node, or say how this one does what Polar has separate processes for.
import { type Command, Option } from 'commander'
import { ENGINES, seconds } from '../options.ts'
import type { GatewayOptions } from '../polar-processes.ts'
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

  program
    .command('serve_rollout')
    .description('as in Polar; here it starts the whole node, gateways included, as serve does')
    .option('-c, --config <file>', 'the topology (else POLAR_TOPOLOGY)')
    .option('--json', 'one JSON line per event')
    .action(async (options: ServeOptions) => {
      const { serveRollout } = await import('../polar-processes.ts')
      process.exitCode = await serveRollout(options)
    })

  program
    .command('serve_gateway')
    .description('as in Polar; here the node serves every gateway: this waits until it serves this one, and ends with it')
    .option('-c, --config <file>', 'the topology (else POLAR_TOPOLOGY)')
    .option('--node-id <id>', 'which gateway of the topology (else POLAR_GATEWAY_NODE_ID, or the only one)')
    .option('--rollout-url <url>', 'address of the node (default: that of the topology)')
    .option('--token <token>', 'control token')
    .option('--wait <seconds>', 'for the node to come up', seconds, 300)
    .action(async (options: GatewayOptions) => {
      const { serveGateway } = await import('../polar-processes.ts')
      process.exitCode = await serveGateway(options)
    })

  program
    .command('dashboard')
    .description('as in Polar; there is none here: says what shows the same, and ends with exit code 2')
    .option('-c, --config <file>', 'the topology')
    .option('--host <host>', 'as in Polar')
    .option('--port <port>', 'as in Polar')
    .action(async () => {
      const { explainDashboard } = await import('../polar-processes.ts')
      process.exitCode = explainDashboard()
    })
}
