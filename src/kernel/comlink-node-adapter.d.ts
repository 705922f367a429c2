// Types for comlink's Node adapter, whose package ships none that Node's module resolution finds.
declare module 'comlink/dist/esm/node-adapter.mjs' {
  import type { MessagePort } from 'node:worker_threads'
  import type { Endpoint } from 'comlink'

  const nodeEndpoint: (port: MessagePort) => Endpoint

  export = nodeEndpoint
}
