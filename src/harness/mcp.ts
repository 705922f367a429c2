// The MCP servers of a task, as each CLI's configuration wants them named.
import { z } from 'zod'
import { httpUrl } from '../contract/http-url.ts'
import { problemsOf } from '../contract/problems.ts'
import type { AgentSpec } from '../contract/task.ts'

const name = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must match [A-Za-z0-9_-]{1,64}')
const texts = z.record(z.string().min(1), z.string())

const serverSchema = z.discriminatedUnion('transport', [
  z.strictObject({
    name,
    transport: z.literal('stdio'),
    command: z.string().min(1),
    args: z.array(z.string()).default([]),
    env: texts.default({}),
  }),
  z.strictObject({ name, transport: z.literal('sse'), url: httpUrl, headers: texts.default({}) }),
  z.strictObject({ name, transport: z.literal('streamable-http'), url: httpUrl, headers: texts.default({}) }),
])

export type McpServer = z.infer<typeof serverSchema>

export type ReadMcpServers = { readonly ok: true; readonly servers: readonly McpServer[] } | { readonly ok: false; readonly error: string }

/** Without a transport a server with a command is `stdio`, one with a URL `streamable-http`. Empty fields of Polar's clients count as absent. */
export function readMcpServers(agent: AgentSpec): ReadMcpServers {
  const servers: McpServer[] = []
  for (const [index, given] of agent.mcp_servers.entries()) {
    const stated = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null && value !== ''))
    const transport = stated.transport ?? (stated.command === undefined ? 'streamable-http' : 'stdio')
    const { args, ...remote } = stated
    // A remote server's empty list of arguments says nothing.
    const meant = transport !== 'stdio' && Array.isArray(args) && args.length === 0 ? remote : stated
    const parsed = serverSchema.safeParse({ ...meant, transport })
    if (!parsed.success) return { ok: false, error: problemsOf(`agent.mcp_servers[${index}]`, { ...meant, transport }, parsed.error) }
    if (servers.some((server) => server.name === parsed.data.name)) {
      return { ok: false, error: `agent.mcp_servers[${index}]: there is a server named '${parsed.data.name}' already` }
    }
    servers.push(parsed.data)
  }
  return { ok: true, servers }
}
