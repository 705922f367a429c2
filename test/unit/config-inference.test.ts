// Where a node's tokens come from, by what its file and its command line name.
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { replicaId } from '../../src/contract/ids.ts'
import { nodeSetup } from '../../src/node-setup.ts'

function parse(text: string, overrides = {}) {
  return parseConfig(text, '/etc/polar/polar.yaml', '/etc/polar', overrides)
}

/** Per gateway the URLs it has, and whom the embedded engine serves. */
function sources(text: string, overrides = {}): unknown {
  const result = parse(text, overrides)
  if (!result.ok) throw new Error(JSON.stringify(result.problems))
  const { nodes, embedded } = result.config
  return { urls: nodes.map(({ replicas }) => replicas.map(({ url }) => url).join()), embedded: embedded?.gateways ?? null }
}

const NAMED = 'inference: { base_url: "http://a" }'

describe('the embedded engine', () => {
  it.each([
    ['nothing is named', '', {}, [''], ['gateway-0']],
    ['no gateway names a server', 'gateway: { nodes: [{ id: a }, { id: b }] }', {}, ['', ''], ['a', 'b']],
    ['it is written with nothing under it', 'polar_node:\n  embedded:\n', {}, [''], ['gateway-0']],
    ['it is asked for', 'polar_node: { embedded: {} }', {}, [''], ['gateway-0']],
    [
      'it is asked for beside a server',
      `gateway: { nodes: [{ id: a, ${NAMED} }, { id: b }] }\npolar_node: { embedded: {} }`,
      {},
      ['http://a', ''],
      ['b'],
    ],
  ])('serves when %s', (_, text, overrides, urls, embedded) => {
    expect(sources(text, overrides)).toEqual({ urls, embedded })
  })

  it.each([
    ['every gateway names one', `gateway: { nodes: [{ ${NAMED} }] }`, {}, ['http://a']],
    ['replicas are listed', 'polar_node: { replicas: { gateway-0: [{ id: r, url: "http://r" }] } }', {}, ['http://r']],
    ['the command line names one', '', { engineUrl: 'http://c' }, ['http://c']],
    ['the command line names one and it is asked for', 'polar_node: { embedded: {} }', { engineUrl: 'http://c' }, ['http://c']],
    ['it is off', 'polar_node: { embedded: false }', { engineUrl: 'http://c' }, ['http://c']],
  ])('stays away when %s', (_, text, overrides, urls) => {
    expect(sources(text, overrides)).toEqual({ urls, embedded: null })
  })

  it.each([
    ['what it is', 'inference: { engine: vllm }', 'vllm'],
    ['what it serves', 'model_served: qwen', 'sglang'],
  ])('leaves Polar’s default address to who says of a server only %s, with a note', (_, line, engine) => {
    const text = `gateway: { nodes: [{ ${line} }] }`
    expect(parse(text)).toMatchObject({
      config: {
        nodes: [{ replicas: [{ url: 'http://127.0.0.1:8000', engine }] }],
        embedded: null,
        notes: ['gateway.nodes[0].inference.base_url is not written: http://127.0.0.1:8000, as in Polar'],
      },
    })
    const given = parse(text, { engineUrl: 'http://c' })
    expect(given).toMatchObject({ config: { nodes: [{ replicas: [{ url: 'http://c' }] }], notes: [] } })
  })

  it('is noted when it is asked for in vain', () => {
    const result = parse(`gateway: { nodes: [{ ${NAMED} }] }\npolar_node: { embedded: {} }`)
    expect(result).toMatchObject({
      config: { notes: ['polar_node.embedded has no effect here: every gateway has inference servers of its own'] },
    })
    expect(parse('polar_node: { embedded: {} }')).toMatchObject({ config: { notes: [] } })
  })

  it('has defaults, and is as the file says where that says anything', () => {
    expect(parse('')).toMatchObject({
      config: {
        embedded: { modelPath: null, servedAs: null, sequences: 8, threads: expect.any(Number), maxModelLen: null, isAskedFor: false },
      },
    })
    const keys = '{ model: models/q.gguf, served_as: q, sequences: 3, threads: 5, max_model_len: 99 }'
    expect(parse(`gateway: { nodes: [{ model_served: q }] }\npolar_node: { embedded: ${keys} }`)).toMatchObject({
      config: {
        embedded: { modelPath: '/etc/polar/models/q.gguf', servedAs: 'q', sequences: 3, threads: 5, maxModelLen: 99, isAskedFor: true },
      },
    })
  })
})

describe('the gateways that name no server', () => {
  it('share the embedded engine, and the others keep what they name', () => {
    const result = parse(`gateway: { nodes: [{ id: a }, { id: b, ${NAMED} }, { id: c }] }\npolar_node: { embedded: {} }`)
    if (!result.ok) throw new Error(JSON.stringify(result.problems))
    const embedded = {
      id: replicaId('embedded'),
      url: 'http://127.0.0.1:7',
      engine: 'vllm',
      maxInFlight: 8,
      maxWaiting: 9,
      dataParallelRanks: null,
      isRouter: false,
    } as const
    const { gateways } = nodeSetup(result.config, { packages: '/p', cache: '/c' }, embedded)
    expect(gateways.map(({ replicas }) => replicas)).toMatchObject([
      [{ id: 'embedded', url: 'http://127.0.0.1:7', engine: 'vllm', inFlight: 4, line: 9 }],
      [{ id: 'b-replica-0', url: 'http://a', inFlight: 64 }],
      [{ id: 'embedded', inFlight: 4 }],
    ])
  })
})

const WAYS = 'gateway.nodes[].inference.base_url, polar_node.replicas or --engine-url'

describe('a node that would serve from nothing, or not from what was meant, is told where', () => {
  it.each([
    [
      'polar_node:\n  embedded: false\n',
      { line: 2, column: 3, key: 'polar_node.embedded', message: `is off, and no inference server is named; name yours with ${WAYS}` },
    ],
    [
      `gateway:\n  nodes:\n    - { id: a, ${NAMED} }\n    - id: b\n`,
      {
        line: 4,
        column: 7,
        key: 'gateway.nodes[1]',
        message: `names no inference server, as others do; name one with ${WAYS}, or set polar_node.embedded`,
      },
    ],
    [
      `gateway:\n  nodes:\n    - { id: a, ${NAMED} }\n    - id: b\npolar_node: { embedded: false }\n`,
      { line: 4, column: 7, key: 'gateway.nodes[1]', message: expect.stringContaining('names no inference server') },
    ],
    [
      'gateway:\n  nodes:\n    - inference: { engine: vllm }\npolar_node: { embedded: {} }\n',
      { line: 3, column: 20, key: 'gateway.nodes[0].inference.engine', message: `is said of no server; name it with ${WAYS}` },
    ],
    [
      'gateway:\n  nodes:\n    - model_served: qwen\npolar_node: { embedded: {} }\n',
      {
        line: 3,
        column: 7,
        key: 'gateway.nodes[0].model_served',
        message: `is a model of no server; name the server that has it with ${WAYS}, or set polar_node.embedded.served_as`,
      },
    ],
    [
      'polar_node:\n  embedded: { modle: x }\n',
      { line: 2, column: 15, key: 'polar_node.embedded.modle', message: 'unknown key; did you mean model?' },
    ],
    [
      'polar_node:\n  embedded: yes\n',
      { line: 2, column: 3, key: 'polar_node.embedded', message: 'must be false, or keys of its own, as { model: policy.gguf }' },
    ],
    [
      'polar_node:\n  embedded: { sequences: 0 }\n',
      { line: 2, column: 15, key: 'polar_node.embedded.sequences', message: expect.stringContaining('>=1') },
    ],
  ])('%j', (text, problem) => {
    expect(parse(text)).toEqual({ ok: false, problems: [{ file: '/etc/polar/polar.yaml', ...problem }] })
  })

  it('and a client of the node is not: it may be served from what only its command line names', () => {
    expect(parse('polar_node: { embedded: false }', { isClient: true })).toMatchObject({ ok: true })
    expect(parse('polar_node: { embedded: { sequences: 0 } }', { isClient: true })).toMatchObject({ ok: false })
  })
})
