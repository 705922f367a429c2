import { execFileSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { type TinyModel, writeTinyModel } from '../lib/tiny-model.ts'

const OPEN = `
const { openModel } = await import('./src/engine/embedded/llama.ts')
const result = await openModel({ path: process.argv[1], contextTokens: null, sequences: 1, threads: 1 })
console.log(JSON.stringify(result))
`

/** The sources where no package is installed. */
function withoutPackages<T>(run: (folder: string, file: TinyModel) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'polar-bare-'))
  const file = writeTinyModel()
  try {
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    cpSync(resolve(import.meta.dirname, '../../src/engine'), join(folder, 'src/engine'), { recursive: true })
    return run(folder, file)
  } finally {
    file.remove()
    rmSync(folder, { recursive: true, force: true })
  }
}

it('says how the native library is installed where it is missing', () => {
  const printed = withoutPackages((folder, file) =>
    execFileSync(process.execPath, ['--input-type=module', '-e', OPEN, file.path], { cwd: folder, encoding: 'utf8', timeout: 20_000 }),
  )
  const { ok, error }: { ok: boolean; error: string } = JSON.parse(printed)
  expect(ok).toBe(false)
  expect(error).toMatch(/npm i --omit=optional node-llama-cpp@3\.21\.1 @node-llama-cpp\/\S+@3\.21\.1 installs it/)
  expect(error).toContain("Cannot find package 'node-llama-cpp'")
})
