// The example for a box of eight GPUs: what its start lines would start is what its entries name, in each of the four ways.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { nodeSetup } from '../../src/node-setup.ts'

const text = readFileSync(resolve(import.meta.dirname, '../../examples/polar.8xh100.yaml'), 'utf8')

/** Each prints how it was called instead of starting anything. */
const STUBS = `
vllm() { echo "vllm gpus=$CUDA_VISIBLE_DEVICES dev=$VLLM_SERVER_DEV_MODE $*"; }
python3() { echo "python3 gpus=$CUDA_VISIBLE_DEVICES $*"; }
`

type Start = { readonly program: string; readonly gpus: string; readonly words: string; flag(name: string): string | null }

/** What a shell makes of the lines of the way with this number. */
function startsOf(way: number): readonly Start[] {
  const lines = text.split('\n')
  const from = lines.findIndex((line) => line.startsWith(`# ${way}. `))
  const to = lines.findIndex((line, at) => at > from && /^# [^ ]/.test(line))
  const script = lines.slice(from + 1, to).map((line) => line.replace(/^#( {6})?/, ''))
  const printed = execFileSync('sh', ['-c', `${STUBS}${script.join('\n')}\nwait`], { encoding: 'utf8' })
  return printed
    .trim()
    .split('\n')
    .map((line) => {
      const [program = '', gpus = '', ...words] = line.split(' ')
      const flag = (name: string): string | null => words[words.indexOf(name) + 1 || words.length] ?? null
      return { program, gpus: gpus.replace('gpus=', ''), words: words.join(' '), flag }
    })
    .toSorted((a, b) => a.gpus.localeCompare(b.gpus))
}

/** The file with the entries of this way, and none of the others. */
function configOf(way: number) {
  const [head = '', entries = ''] = text.split('    gateway-0:\n      # 1.')
  const blocks = `      # 1.${entries}`.split(/^ {6}# \d\..*\n/m).slice(1)
  const block = (blocks[way - 1] ?? '').replace(/^ {6}# - /gm, '      - ')
  const parsed = parseConfig(`${head}    gateway-0:\n${block}`, 'polar.8xh100.yaml', '/box')
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
  return parsed.config
}

const replicasOf = (way: number) => configOf(way).nodes.flatMap(({ replicas }) => replicas)
const urlOf = (start: Start): string => `http://127.0.0.1:${start.flag('--port')}`
const GPUS = ['0', '1', '2', '3', '4', '5', '6', '7']

describe('the example for eight H100', () => {
  it('loads as it is, as the first way, with no note', () => {
    const parsed = parseConfig(text, 'polar.8xh100.yaml', '/box')
    expect(parsed).toEqual({ ok: true, config: configOf(1) })
    expect(configOf(1).notes).toEqual([])
  })

  it.each([1, 2, 3, 4])('has Polar’s workers for eight GPUs in way %i', (way) => {
    const [gateway, ...others] = nodeSetup(configOf(way), { packages: '/p', cache: '/c' }, null).gateways
    expect(others).toEqual([])
    expect(gateway).toMatchObject({
      port: 8081,
      limits: { maxInitWorkers: (48 / 24) * 8, maxRunWorkers: (384 / 24) * 8, maxPostrunWorkers: (192 / 24) * 8 },
    })
  })

  it('1: starts one vLLM server per GPU, and calls each of them', () => {
    const starts = startsOf(1)
    expect(starts.map(({ program, gpus }) => [program, gpus])).toEqual(GPUS.map((gpu) => ['vllm', gpu]))
    expect(replicasOf(1).map(({ url, engine }) => [url, engine])).toEqual(starts.map((start) => [urlOf(start), 'vllm']))
  })

  it('2: starts one vLLM server over all GPUs, and calls it', () => {
    const [start, ...others] = startsOf(2)
    expect([others, start?.program, start?.gpus, start?.flag('--tensor-parallel-size')]).toEqual([[], 'vllm', '', '8'])
    expect(replicasOf(2)).toMatchObject([
      { url: start === undefined ? '' : urlOf(start), engine: 'vllm', dataParallelRanks: null, isRouter: false },
    ])
  })

  it('3: starts one SGLang server with eight ranks, and calls each rank', () => {
    const [start, ...others] = startsOf(3)
    expect([others, start?.words.startsWith('-m sglang.launch_server '), start?.flag('--dp-size')]).toEqual([[], true, '8'])
    expect(replicasOf(3)).toMatchObject([
      { url: start === undefined ? '' : urlOf(start), engine: 'sglang', dataParallelRanks: 8, maxInFlight: 8 * 64 },
    ])
  })

  it('4: starts one SGLang server per GPU and a router over all of them, and names the router', () => {
    const starts = startsOf(4)
    const [router, ...workers] = starts
    expect(workers.map(({ gpus, words }) => [gpus, words.startsWith('-m sglang.launch_server ')])).toEqual(GPUS.map((gpu) => [gpu, true]))
    expect(router?.words.startsWith('-m sglang_router.launch_router ')).toBe(true)
    expect(router?.words.split('--worker-urls ')[1]?.split(' ')).toEqual(workers.map(urlOf))
    expect(replicasOf(4)).toMatchObject([{ url: router === undefined ? '' : urlOf(router), engine: 'sglang', isRouter: true }])
  })

  it.each([1, 2, 3, 4])('has no server in way %i that would not read tool calls, or sample otherwise than asked', (way) => {
    const servers = startsOf(way).filter(({ words }) => !words.includes('launch_router'))
    expect(servers.length).toBeGreaterThan(0)
    for (const server of servers) {
      expect([server.flag('--host'), server.flag('--tool-call-parser'), server.flag('--reasoning-parser')]).toEqual([
        '127.0.0.1',
        'qwen3_coder',
        'qwen3',
      ])
      const own =
        server.program === 'vllm'
          ? [
              server.words.startsWith('dev=1 serve '),
              server.flag('--generation-config'),
              server.flag('--logprobs-mode'),
              server.words.includes('--enable-auto-tool-choice'),
            ]
          : [server.flag('--sampling-defaults')]
      expect(own).toEqual(server.program === 'vllm' ? [true, 'vllm', 'processed_logprobs', true] : ['openai'])
    }
  })

  it('names no port twice in any way', () => {
    for (const way of [1, 2, 3, 4]) {
      const ports = [8080, 8081, ...startsOf(way).map((start) => Number(start.flag('--port')))]
      expect(new Set(ports).size).toBe(ports.length)
    }
  })
})
