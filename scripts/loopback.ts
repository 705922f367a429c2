// Runs a command where there is no network but loopback: in a network namespace of its own.
import { spawnSync } from 'node:child_process'
import { networkInterfaces } from 'node:os'

/** The interface must be raised by whoever made the namespace. */
const RAISE_LOOPBACK = 'ip link set lo up && exec "$@"'

/** Exit code of the command, or why it could not be run there. */
export type Alone = { readonly ok: true; readonly code: number } | { readonly ok: false; readonly problem: string }

export function runOnLoopback(command: readonly string[], env: Readonly<Record<string, string | undefined>>): Alone {
  // Whoever is not root becomes it in a user namespace, for nothing but the interface.
  const options = process.getuid?.() === 0 ? ['--net'] : ['--map-root-user', '--net']
  const attempt = spawnSync('unshare', [...options, 'sh', '-c', RAISE_LOOPBACK, 'sh', 'true'], { encoding: 'utf8' })
  if (attempt.status !== 0) {
    const why = attempt.error?.message ?? attempt.stderr.trim()
    return {
      ok: false,
      problem: `no network namespace can be made on this machine (${why}): it takes root or user namespaces, \`unshare\` and \`ip\``,
    }
  }
  const { status } = spawnSync('unshare', [...options, 'sh', '-c', RAISE_LOOPBACK, 'sh', ...command], { stdio: 'inherit', env })
  return { ok: true, code: status ?? 1 }
}

/** Interfaces that lead anywhere but to this machine. */
export function outwardInterfaces(): readonly string[] {
  return Object.entries(networkInterfaces()).flatMap(([name, addresses = []]) =>
    addresses.every(({ internal }) => internal) ? [] : [name],
  )
}
