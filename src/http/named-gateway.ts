// The gateway that a path names: whether this node has it, drained ones too, and what is said when it has not, or gets no answer.
import type { FastifyReply } from 'fastify'
import type { GatewayId } from '../contract/ids.ts'
import type { RouteContext } from './control-api.ts'
import { refuse } from './errors.ts'

/** Parameters of a path under `/gateways/<id>`. */
export type OfGateway = { readonly Params: { readonly gateway: string } }

export async function withGateway(
  { inference: { gateways } }: RouteContext,
  name: string,
  reply: FastifyReply,
  use: (gateway: GatewayId) => FastifyReply | Promise<FastifyReply>,
): Promise<FastifyReply> {
  const gateway = gateways.find((known) => known === name)
  return gateway === undefined ? refuse(reply, 'node-unknown', `no gateway ${name}; there are ${gateways.join(', ')}`) : use(gateway)
}

export function silence(gateway: GatewayId): string {
  return `gateway ${gateway} does not answer; it may be starting again`
}
