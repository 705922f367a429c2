// The URL under which others find a server of this node.

const ANY_ADDRESS: ReadonlySet<string> = new Set(['0.0.0.0', '::'])

/** As the operator says, without a slash at its end; or else as it is bound. Nobody can call the address that means all of them. */
export function serverUrl(publicUrl: string | null, address: string, port: number): string {
  if (publicUrl !== null) return publicUrl.replace(/\/+$/, '')
  const host = ANY_ADDRESS.has(address) ? '127.0.0.1' : address
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`
}
