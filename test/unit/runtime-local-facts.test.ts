import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { openRuntimes } from '../../src/runtime/registry.ts'
import { folderOf, isUnder } from '../../src/runtime/sandbox-folder.ts'
import { parseStatus } from '../../src/runtime/supervisor.ts'
import { countedRandom, realClock, unwrap } from '../lib/runtime-fixture.ts'

const root = mkdtempSync(join(tmpdir(), 'polar-facts-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))
const runtimes = openRuntimes({
  local: { root, uploadRoots: [], maxOutputBytes: 1024, path: '/usr/bin:/bin', clock: realClock, random: countedRandom() },
})

it.each([
  ['exited 0\n', { type: 'exited', code: 0 }],
  ['exited 255\n', { type: 'exited', code: 255 }],
  ['signalled 9\n', { type: 'signalled', signal: 'SIGKILL' }],
  ['signalled 64\n', { type: 'signalled', signal: 'SIG64' }],
  ['exited 0', null],
  ['', null],
  ['exited 0\nexited 1\n', null],
  ['exited 99999\n', null],
])('reads the status file %j and nothing that a supervisor would not write', (text, exit) => {
  expect(parseStatus(text)).toEqual(exit)
})

it.each(['..', 'sbx-1', 'sbx-00000000000000aa/..', '', 'home', 'SBX-00000000000000AA'])('takes %j for no sandbox', (id) => {
  expect(folderOf('/root', id)).toBeNull()
})

it.each([
  ['/a/b', '/a/b', true],
  ['/a/b/c', '/a/b', true],
  ['/a/bc', '/a/b', false],
  ['/a', '/a/b', false],
  ['/a', '/', true],
])('%s is under %s: %s', (path, folder, expected) => {
  expect(isUnder(path, folder)).toBe(expected)
})

describe('the runtimes of a node', () => {
  it.each(['docker', 'apptainer', 'constructor', ''])('are named when a task asks for another: %j', (backend) => {
    expect(runtimes.check(backend)).toBe(`runtime backend '${backend}' is not available on this node; available: 'local'`)
  })

  it('include local, which says that it isolates nothing and enforces no limit', async () => {
    expect(runtimes.check('local')).toBeNull()
    const local = runtimes.byName.get('local')
    expect(local?.isolation).toBe('none')
    if (local === undefined) return
    const spec = { labels: {}, env: {}, workdir: null, image: 'img', cpus: 2, memoryMb: 100, allowInternet: false }
    const { sandbox, notes } = unwrap(await local.start(spec))
    expect(notes.join('\n')).toMatch(/no isolation[\s\S]*'img'[\s\S]*cpus[\s\S]*memory_mb[\s\S]*allow_internet/)
    expect(local.modelUrl(sandbox, 8081)).toBe('http://127.0.0.1:8081')
    await local.stop(sandbox, { keepLogs: null })
  })

  it('answer a launch that the system refuses with the reason', async () => {
    const local = runtimes.byName.get('local')
    if (local === undefined) throw new Error('no local runtime')
    const { sandbox } = unwrap(
      await local.start({ labels: {}, env: {}, workdir: null, image: null, cpus: null, memoryMb: null, allowInternet: true }),
    )
    const launch = (more: object) => local.launch(sandbox, { command: 'true', env: {}, label: 'x', ...more })
    expect(await launch({ env: { BIG: 'x'.repeat(200_000) } })).toMatchObject({
      ok: false,
      error: { code: 'launch-failed', detail: expect.stringMatching(/E2BIG/) },
    })
    expect(await launch({ cwd: '/etc' })).toMatchObject({
      ok: false,
      error: { code: 'launch-failed', detail: expect.stringMatching(/not lie in the sandbox/) },
    })
    expect(await launch({ cwd: 'nowhere' })).toMatchObject({
      ok: false,
      error: { code: 'launch-failed', detail: expect.stringMatching(/no folder/) },
    })
    expect(await launch({ label: '../x' })).toMatchObject({
      ok: false,
      error: { code: 'launch-failed', detail: expect.stringMatching(/label/) },
    })
    await local.stop(sandbox, { keepLogs: null })
  })
})
