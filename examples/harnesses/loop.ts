// A harness of one's own, outside the package: it runs the little agent beside it. Named in polar.yaml it is as good as a built-in one:
//   polar_node: { harnesses: { loop: examples/harnesses/loop.ts } }
import type { AgentSpec, Harness } from 'polar-node'

const AGENT = `${import.meta.dirname}/loop-agent.mjs`
const MAX_TURNS = 'max_turns'

export const harness: Harness = {
  name: 'loop',
  dialect: 'openai-chat',

  check({ settings, mcp_servers, skills_path }: AgentSpec): string | null {
    if (mcp_servers.length > 0) return "harness 'loop' has no MCP client: remove agent.mcp_servers"
    if (skills_path != null) return "harness 'loop' knows no skills: remove agent.skills_path"
    const { [MAX_TURNS]: turns, sampling: _sampling, sampling_seed: _seed, ...unknown } = settings
    const [misspelt] = Object.keys(unknown)
    if (misspelt !== undefined) return `agent.settings.${misspelt}: unknown key; there is ${MAX_TURNS}`
    if (turns === undefined || (Number.isSafeInteger(turns) && Number(turns) > 0)) return null
    return `agent.settings.${MAX_TURNS}: must be a whole number above 0`
  },

  plan({ agent, instruction, modelUrl, modelKey, home }) {
    const instructionFile = `${home}/instruction.md`
    const env = {
      OPENAI_BASE_URL: `${modelUrl}/v1`,
      OPENAI_API_KEY: modelKey,
      AGENT_MODEL: agent.model_name ?? 'policy',
      AGENT_MAX_TURNS: String(agent.settings[MAX_TURNS] ?? 20),
      AGENT_INSTRUCTION_FILE: instructionFile,
      AGENT_TRANSCRIPT: `${home}/transcript.jsonl`,
      ...agent.env,
    }
    return {
      ok: true,
      plan: {
        files: [{ path: instructionFile, content: instruction }],
        setup: [],
        run: { command: `exec '${process.execPath}' '${AGENT}'`, env, label: 'agent' },
        logs: [env.AGENT_TRANSCRIPT],
      },
    }
  },

  // The agent's last line says how it ended.
  verdict({ stdoutTail }) {
    const last = stdoutTail.trim().split('\n').at(-1)
    return last === 'done' ? { failed: false } : { failed: true, reason: `the agent ended with: ${last || 'nothing'}` }
  },
}
