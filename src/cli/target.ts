// Which node a command talks to: an explicit URL, the one that a configuration file describes, or the one that runs with all defaults.
import { loadConfig } from '../config.ts'
import { configFile } from './config-file.ts'
import { type ControlClient, openControlClient, readControlToken } from './control-client.ts'
import { describeProblems } from './problems.ts'

export type TargetOptions = { readonly config?: string; readonly rolloutUrl?: string; readonly token?: string }

export type Target = { readonly ok: true; readonly client: ControlClient } | { readonly ok: false; readonly problem: string }

/** The token comes from the option, the URL, the environment, or the file the node wrote at its first start, in this order. */
export async function openTarget(options: TargetOptions): Promise<Target> {
  const fromEnvironment = process.env.POLAR_CONTROL_PLANE_TOKEN ?? null
  const given = options.token ?? null
  const url = options.rolloutUrl
  if (url !== undefined) {
    if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return { ok: false, problem: `'${url}' is not a URL like http://host:8080` }
    const inUrl = new URL(url).password !== ''
    return { ok: true, client: openControlClient(url, given ?? (inUrl ? null : fromEnvironment)) }
  }
  const loaded = await loadConfig(configFile(options), { isClient: true })
  if (!loaded.ok) return { ok: false, problem: describeProblems(loaded.problems) }
  const { config } = loaded
  const { host, port, publicUrl, tokenFile } = config.control
  const token = given ?? fromEnvironment ?? (await readControlToken(tokenFile))
  return { ok: true, client: openControlClient(publicUrl ?? `http://${reachable(host)}:${port}`, token) }
}

/** A node that listens on every address is reached on this machine's own. */
function reachable(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return host.includes(':') ? `[${host}]` : host
}
