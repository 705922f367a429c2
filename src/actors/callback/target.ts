// Where a callback may go: http or https, and never to an address that answers with the host's own credentials.
import { BlockList, isIP } from 'node:net'

const FORBIDDEN = new BlockList()
// Link-local, where clouds serve instance metadata; also as NAT64.
FORBIDDEN.addSubnet('169.254.0.0', 16, 'ipv4')
FORBIDDEN.addSubnet('fe80::', 10, 'ipv6')
FORBIDDEN.addSubnet('64:ff9b::a9fe:0', 112, 'ipv6')
// Metadata services outside link-local: AWS over IPv6, Alibaba, Oracle.
FORBIDDEN.addAddress('fd00:ec2::254', 'ipv6')
FORBIDDEN.addAddress('100.100.100.200', 'ipv4')
FORBIDDEN.addAddress('192.0.0.192', 'ipv4')
FORBIDDEN.addSubnet('224.0.0.0', 4, 'ipv4')
FORBIDDEN.addSubnet('ff00::', 8, 'ipv6')

const FORBIDDEN_NAMES = new Set(['metadata', 'metadata.google.internal', 'instance-data', 'instance-data.ec2.internal'])

export function isForbiddenAddress(address: string): boolean {
  const family = isIP(address)
  return family !== 0 && FORBIDDEN.check(address, family === 4 ? 'ipv4' : 'ipv6')
}

/** A problem in the caller's terms, or null. Names are checked again when they are resolved, so that DNS cannot point them elsewhere. */
export function checkTarget(url: string): string | null {
  const parsed = URL.canParse(url) ? new URL(url) : null
  if (parsed === null) return 'must be an absolute URL'
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') return `must be http or https, not ${parsed.protocol.slice(0, -1)}`
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '')
  if (FORBIDDEN_NAMES.has(host.toLowerCase()) || isForbiddenAddress(host))
    return `must not point to a link-local, multicast or metadata address (${host})`
  return null
}
