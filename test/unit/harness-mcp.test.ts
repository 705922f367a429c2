import { describe, expect, it } from 'vitest'
import { claudeCodeHarness } from '../../src/harness/claude-code.ts'
import { codexHarness } from '../../src/harness/codex.ts'
import { readMcpServers } from '../../src/harness/mcp.ts'
import { opencodeHarness } from '../../src/harness/opencode.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const SERVERS = [
  { name: 'files', transport: 'stdio', command: 'mcp-files', args: ['--root', '/workspace'], env: { TOKEN: 'a "b"' } },
  { name: 'web', transport: 'streamable-http', url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': 'k' } },
]

describe('MCP servers of a task', () => {
  it('stand in the tables of Codex’s configuration after the provider, which stays where it is', () => {
    const toml = fileOf(planOf(codexHarness, contextOf({ harness: 'codex', mcp_servers: SERVERS })), 'config.toml')
    expect(toml).toContain(
      [
        '[mcp_servers.files]',
        'command = "mcp-files"',
        'args = ["--root", "/workspace"]',
        '',
        '[mcp_servers.files.env]',
        'TOKEN = "a \\"b\\""',
        '',
        '[mcp_servers.web]',
        'url = "http://127.0.0.1:9/mcp"',
        '',
        '[mcp_servers.web.http_headers]',
        'x-key = "k"',
      ].join('\n'),
    )
    const [provider = '', servers = ''] = toml.split('[mcp_servers.files]')
    expect(provider).toContain('[model_providers.polar]\nname = "polar"\nbase_url = "http://127.0.0.1:8081/s/sk-polar-1/v1"')
    expect(servers).not.toContain('base_url')
  })

  it('are the only ones Claude Code loads, from a file of an object by name', () => {
    const plan = planOf(claudeCodeHarness, contextOf({ harness: 'claude_code', mcp_servers: SERVERS }))
    expect(plan.run.command).toContain("--strict-mcp-config --mcp-config '/box/home/.claude/polar-mcp.json'")
    expect(JSON.parse(fileOf(plan, 'polar-mcp.json'))).toEqual({
      mcpServers: {
        files: { type: 'stdio', command: 'mcp-files', args: ['--root', '/workspace'], env: { TOKEN: 'a "b"' } },
        web: { type: 'http', url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': 'k' } },
      },
    })
  })

  it('stand among OpenCode’s own words, with the command as one list', () => {
    const plan = planOf(opencodeHarness, contextOf({ harness: 'opencode', mcp_servers: SERVERS }))
    expect(JSON.parse(fileOf(plan, '/opencode.json')).mcp).toEqual({
      files: { type: 'local', command: ['mcp-files', '--root', '/workspace'], environment: { TOKEN: 'a "b"' }, enabled: true },
      web: { type: 'remote', url: 'http://127.0.0.1:9/mcp', headers: { 'x-key': 'k' }, oauth: false, enabled: true },
    })
  })

  it('may leave out what the rest says, as Polar’s clients do', () => {
    const mcp_servers = [
      { name: 'a', command: 'x', url: null },
      { name: 'b', url: 'http://h/', command: '', args: [] },
    ]
    expect(readMcpServers(agentOf({ harness: 'codex', mcp_servers }))).toEqual({
      ok: true,
      servers: [
        { name: 'a', transport: 'stdio', command: 'x', args: [], env: {} },
        { name: 'b', transport: 'streamable-http', url: 'http://h/', headers: {} },
      ],
    })
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a name that is more than a word', { name: 'a.b', command: 'x' }, 'name'],
    ['no name', { command: 'x' }, 'name'],
    ['neither command nor URL', { name: 'a' }, 'url'],
    ['a URL of a file', { name: 'a', url: 'file:///etc/passwd' }, 'url'],
    ['arguments that are no texts', { name: 'a', command: 'x', args: [1] }, 'args'],
    ['an unknown transport', { name: 'a', transport: 'smoke', url: 'http://h/' }, 'transport'],
    ['an unknown key', { name: 'a', command: 'x', cmd: 'y' }, 'cmd'],
    ['a name that is taken', { name: 'ok', command: 'x' }, "named 'ok'"],
  ])('are refused with %s, by place', (_name, server, word) => {
    const agent = agentOf({ harness: 'codex', mcp_servers: [{ name: 'ok', command: 'x' }, server] })
    for (const harness of [codexHarness, claudeCodeHarness, opencodeHarness]) {
      expect(harness.check(agent)).toContain('agent.mcp_servers[1]')
      expect(harness.check(agent)).toContain(word)
      expect(harness.plan({ ...contextOf({ harness: 'codex' }), agent })).toMatchObject({ ok: false })
    }
  })

  it('may be reached by server-sent events by Claude Code, and not by Codex', () => {
    const agent = agentOf({ harness: 'codex', mcp_servers: [{ name: 'old', transport: 'sse', url: 'http://h/' }] })
    expect(codexHarness.check(agent)).toBe("agent.mcp_servers: 'old' has transport 'sse', which Codex does not speak")
    expect(claudeCodeHarness.check(agent)).toBeNull()
    const plan = planOf(claudeCodeHarness, { ...contextOf({ harness: 'claude_code' }), agent })
    expect(JSON.parse(fileOf(plan, 'polar-mcp.json'))).toEqual({ mcpServers: { old: { type: 'sse', url: 'http://h/', headers: {} } } })
  })
})
