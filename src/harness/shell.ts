// The `shell` harness: any program that calls a model API, run as the task's own command.
import type { AgentSpec } from '../contract/task.ts'
import { agentEnvironment, checkEnvironment, FOLDERS_COMMAND, INSTRUCTION, INSTRUCTION_FILE, instructionFile } from './environment.ts'
import type { Harness } from './harness.ts'
import { withPlaceholders } from './quoting.ts'
import { checkSampling } from './settings.ts'

const PLACEHOLDERS = new Map([
  ['INSTRUCTION', INSTRUCTION],
  ['INSTRUCTION_FILE', INSTRUCTION_FILE],
])

export const shellHarness: Harness = {
  name: 'shell',
  dialect: 'any',

  check(agent: AgentSpec): string | null {
    const shell = agent.custom_shell
    if (shell === undefined) return "harness 'shell' needs agent.custom_shell.command"
    if (agent.mcp_servers.length > 0) return "harness 'shell' takes no agent.mcp_servers: configure them in the command"
    if (agent.skills_path != null) return "harness 'shell' takes no agent.skills_path: upload them in runtime.prepare"
    return checkSampling(agent) ?? checkEnvironment('agent.env', agent.env) ?? checkEnvironment('agent.custom_shell.env', shell.env)
  },

  plan(context) {
    const shell = context.agent.custom_shell
    if (shell === undefined) return { ok: false, error: "harness 'shell' needs agent.custom_shell.command" }
    const env = { ...agentEnvironment(context, {}), ...shell.env }
    if (/\{\{INSTRUCTION\}\}/.test(shell.command) && env[INSTRUCTION] === undefined) {
      const bytes = Buffer.byteLength(context.instruction)
      return { ok: false, error: `the instruction (${bytes} bytes) is too long for {{INSTRUCTION}}: use {{INSTRUCTION_FILE}}` }
    }
    return {
      ok: true,
      plan: {
        files: [{ path: instructionFile(context), content: context.instruction }],
        setup: [{ command: FOLDERS_COMMAND, env, label: 'folders' }],
        run: {
          command: withPlaceholders(shell.command, PLACEHOLDERS),
          env,
          label: 'agent',
          ...(shell.cwd === undefined ? {} : { cwd: shell.cwd }),
        },
      },
    }
  },

  // The command's exit code is all there is to know of a program that nobody here knows.
  verdict: () => ({ failed: false }),
}
