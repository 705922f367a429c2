import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runPolar, runToEnd } from '../lib/polar-process.ts'

let folder = ''
let occupied: Server
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'polar-cli-'))
  occupied = createServer((_, response) => response.writeHead(500).end('not polar'))
  await new Promise<void>((listening) => occupied.listen(0, '127.0.0.1', listening))
})
afterAll(async () => {
  await new Promise((closed) => occupied.close(closed))
  rmSync(folder, { recursive: true, force: true })
})

function write(name: string, text: string): string {
  const file = join(folder, name)
  writeFileSync(file, text)
  return file
}

describe('polar on the command line', () => {
  it.each([
    ['polar', [], ['serve', 'submit', 'status', 'engine', 'Exit codes']],
    ['serve', ['serve'], ['--config', '--engine-url', '--json']],
    ['submit', ['submit'], ['--rollout-url', '--no-wait', '--json']],
    ['status', ['status'], ['--rollout-url', '--json']],
    ['engine', ['engine'], ['--scripted', '--shape', '--fault']],
  ])('%s --help names its commands and options', async (_, command, words) => {
    const { code, stdout } = await runPolar(...command, '--help')
    expect(code).toBe(0)
    for (const word of words) expect(stdout).toContain(word)
  })

  it('is found by npx inside the checkout', async () => {
    const { code, stdout } = await runToEnd('npx', ['--no-install', 'polar', '--help'])
    expect([code, stdout.includes('Usage: polar')]).toEqual([0, true])
  })

  it.each([
    ['an unknown command', ['fly'], 2, /unknown command 'fly'/],
    ['an unknown option', ['serve', '--speed', 'high'], 2, /unknown option '--speed'/],
    ['a poll interval that is none', ['submit', 'x.json', '--poll-interval', 'soon'], 2, /positive number of seconds/],
    ['a task file that is not there', ['submit', 'nowhere.json'], 2, /cannot read the task nowhere\.json/],
    ['an address that is none', ['status', '--rollout-url', 'nowhere'], 2, /'nowhere' is not a URL/],
    ['a node that does not answer', ['status', '--rollout-url', 'http://127.0.0.1:9'], 3, /no answer from http:\/\/127\.0\.0\.1:9/],
    ['an engine that is not scripted', ['engine'], 1, /only --scripted engines/],
    ['a fault nobody knows', ['engine', '--scripted', '--fault', 'rain'], 1, /no fault rain; there are hang/],
    ['a script that is not there', ['engine', '--scripted', '--script', 'no.yaml'], 1, /cannot read script no\.yaml/],
  ] as const)('says what is wrong with %s', async (_, args, expected, words) => {
    const { code, stderr } = await runPolar(...args)
    expect(stderr).toMatch(words)
    expect(code).toBe(expected)
  })

  it.each([
    ['an unknown key', 'rollout:\n  prot: 8080\n', /:2:3: rollout\.prot: .*port/],
    ['a value of the wrong type', 'rollout:\n  port: many\n', /:2:3: rollout\.port: /],
    ['a key of ours in Polar’s place', 'data_dir: /tmp\n', /:1:1: data_dir: /],
    [
      'two nodes with one port',
      'gateway:\n  nodes:\n    - { id: a, port: 9001 }\n    - { id: b, port: 9001 }\n',
      /:4:\d+: .*port 9001 is already/,
    ],
    ['text that is not YAML', 'rollout: [\n', /:2:1: /],
  ])('names file, line and key of %s', async (_, text, words) => {
    const file = write('bad.yaml', text)
    const { code, stderr } = await runPolar('serve', '--config', file)
    expect(stderr).toContain(file)
    expect(stderr).toMatch(words)
    expect(code).toBe(2)
  })

  it('says which port is in use', async () => {
    const { port } = occupied.address() as AddressInfo
    const control = write(
      'control.yaml',
      `rollout: { port: ${port} }\ngateway: { nodes: [{ port: 0 }] }\npolar_node: { data_dir: ${folder}/a }\n`,
    )
    const model = write(
      'model.yaml',
      `rollout: { port: 0 }\ngateway: { nodes: [{ port: ${port} }] }\npolar_node: { data_dir: ${folder}/b }\n`,
    )
    const results = [await runPolar('serve', '--config', control), await runPolar('serve', '--config', model)]
    for (const { code, stderr } of results) expect([code, stderr.includes(String(port))]).toEqual([1, true])
  })

  it('follows a task by looking again where there are no events to follow', async () => {
    const task = write('followed.json', '{"task_id":"t"}')
    let looks = 0
    const node = createServer((request, response) => {
      const answers: { readonly [path: string]: () => unknown } = {
        '/rollout/task/submit': () => ({ task_id: 't' }),
        '/rollout/status': () => ({ tasks: { t: ++looks === 2 ? 'completed' : 'running' } }),
        '/tasks/t/sessions': () => ({ sessions: [] }),
      }
      const answer = answers[request.url ?? '']
      response.writeHead(answer === undefined ? 503 : 200, { 'content-type': 'application/json' }).end(JSON.stringify(answer?.() ?? {}))
    })
    await new Promise<void>((listening) => node.listen(0, '127.0.0.1', listening))
    const { port } = node.address() as AddressInfo
    const { code, stdout } = await runPolar('submit', task, '--rollout-url', `http://127.0.0.1:${port}`, '--poll-interval', '0.1')
    await new Promise((closed) => node.close(closed))
    expect([code, stdout]).toEqual([0, expect.stringContaining('task t completed')])
  })
})
