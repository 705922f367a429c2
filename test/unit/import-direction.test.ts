import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findViolations } from '../../scripts/imports.ts'

let source = ''
beforeEach(() => {
  source = mkdtempSync(join(tmpdir(), 'polar-imports-'))
})
afterEach(() => rmSync(source, { recursive: true, force: true }))

function write(file: string, text: string): void {
  mkdirSync(dirname(join(source, file)), { recursive: true })
  writeFileSync(join(source, file), text)
}

describe('the direction of imports', () => {
  it.each([
    ['kernel/a.ts', '../contract/ids.ts', 'kernel may not know contract'],
    ['kernel/a.ts', '../tokens/slab.ts', 'kernel may not know tokens'],
    ['tokens/a.ts', '../proxy/chat.ts', 'tokens may not know proxy'],
    ['proxy/dialects/chat/a.ts', '../../../actors/gateway/protocol.ts', 'proxy may not know actors/gateway'],
    ['trajectory/a.ts', '../actors/builder/protocol.ts', 'trajectory may not know actors/builder'],
    ['runtime/a.ts', '../actors/sandbox/protocol.ts', 'runtime may not know actors/sandbox'],
    ['harness/a.ts', '../actors/session/protocol.ts', 'harness may not know actors/session'],
    ['evaluators/a.ts', '../actors/evaluator/protocol.ts', 'evaluators may not know actors/evaluator'],
    ['http/a.ts', '../actors/callback/actor.ts', 'http may not know actors/callback'],
    ['http/a.ts', '../main.ts', 'http may not know main'],
    ['actors/gateway/a.ts', '../session/state.ts', 'actors/gateway may not know actors/session'],
    ['actors/gateway/a.ts', '../../topology.ts', 'actors/gateway may not know topology'],
    ['actors/table.ts', './gateway/protocol.ts', 'actors may not know actors/gateway'],
    ['node-drain.ts', './actors/callback/state.ts', 'node-drain may not know actors/callback'],
    ['cli/a.ts', '../topology.ts', 'cli may not know topology'],
    ['config/a.ts', '../main.ts', 'config may not know main'],
    ['novelty/a.ts', '../kernel/ask.ts', 'nothing is said of what novelty may know'],
    ['kernel/a.ts', '../../test/lib/specs.ts', 'src/ imports nothing outside itself'],
  ])('%s must not import %s', (file, imports, reason) => {
    write(file, `import type { A } from '${imports}'\n`)
    expect(findViolations(source)).toEqual([{ file, imports: join(dirname(file), imports), reason }])
  })

  it.each([
    ['actors/gateway/a.ts', '../session/protocol.ts'],
    ['actors/gateway/a.ts', './state.ts'],
    ['actors/gateway/a.ts', '../table.ts'],
    ['http/routes/a.ts', '../../actors/gateway/protocol.ts'],
    ['threads/a.ts', '../actors/gateway/actor.ts'],
    ['topology.ts', './threads/control.ts'],
    ['main.ts', './actors/callback/transport.ts'],
    ['config.ts', './config/schema.ts'],
    ['cli/a.ts', '../config.ts'],
    ['kernel/a.ts', './ask.ts'],
  ])('%s may import %s', (file, imports) => {
    write(file, `import { a } from '${imports}'\n`)
    expect(findViolations(source)).toEqual([])
  })

  it.each([
    ["import '../tokens/slab.ts'"],
    ["import {\n  a,\n  type B,\n} from '../tokens/slab.ts'"],
    ["export * from '../tokens/slab.ts'"],
    ['export type { A } from "../tokens/slab.ts"'],
    ["const a = await import('../tokens/slab.ts')"],
    ["const a = await import(\n  '../tokens/slab.ts',\n)"],
    ["type A = import('../tokens/slab.ts').A"],
  ])('is seen in %j', (text) => {
    write('kernel/a.ts', `// A file.\n${text}\n`)
    expect(findViolations(source)).toHaveLength(1)
  })

  it('finds nothing wrong with this code', () => {
    expect(findViolations(resolve(import.meta.dirname, '../../src'))).toEqual([])
  })
})
