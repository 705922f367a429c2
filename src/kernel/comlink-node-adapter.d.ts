// Types for comlink's Node adapter, whose package ships none that Node's module resolution finds.
declare module 'comlink/dist/esm/node-adapter.mjs' {
  import type { Endpoint } from 'comlink'

  /** A message port, or what posts and listens like one. */
  type NodeEndpoint = {
    postMessage(message: object): void
    on(type: 'message', listener: (data: object) => void): unknown
    off(type: 'message', listener: (data: object) => void): unknown
  }

  const nodeEndpoint: (endpoint: NodeEndpoint) => Endpoint

  export = nodeEndpoint
}
