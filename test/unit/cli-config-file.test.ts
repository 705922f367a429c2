// Which file a command takes for its configuration, and which of Polar's variables are said to mean nothing.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { configFile, ignoredVariables } from '../../src/cli/config-file.ts'

afterEach(() => vi.unstubAllEnvs())

describe('the configuration of a command', () => {
  it.each([
    [{ config: 'mine.yaml' }, 'theirs.yaml', 'mine.yaml'],
    [{}, 'theirs.yaml', 'theirs.yaml'],
    [{}, '', null],
    [{ config: 'mine.yaml' }, '', 'mine.yaml'],
  ])('%j with POLAR_TOPOLOGY=%s is %s', (options, topology, file) => {
    vi.stubEnv('POLAR_TOPOLOGY', topology)
    expect(configFile(options)).toBe(file)
  })
})

describe('variables of Polar', () => {
  it('that have no effect are told of with what is so instead', () => {
    expect(ignoredVariables({ POLAR_ROLLOUT_SAVE_DIR: '/data', POLAR_GATEWAY_NODE_ID: 'a', HOME: '/root' })).toEqual([
      'POLAR_ROLLOUT_SAVE_DIR has no effect here: results are kept by the node and read from GET /rollout/task/<id>',
      'POLAR_GATEWAY_NODE_ID has no effect here: this process is every gateway of its configuration',
    ])
  })

  it('that are empty, or that this node reads, are none of them', () => {
    const read = { POLAR_TOPOLOGY: 't.yaml', POLAR_CONTROL_PLANE_TOKEN: 'x' }
    expect(ignoredVariables({ ...read, POLAR_ROLLOUT_SAVE_DIR: '' })).toEqual([])
  })
})
