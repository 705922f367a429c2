import { lstatSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { upload } from '../../src/runtime/upload.ts'

const folder = mkdtempSync(join(tmpdir(), 'polar-upload-roots-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('an upload that is refused', () => {
  it.each([
    ['says that nothing is allowed where nothing is', [], 'this node allows no uploads: set polar_node.upload_roots'],
    ['names the source where others are allowed', [folder], `'${tmpdir()}' is no file or folder under upload_roots`],
    ['says the same of roots that are not there', [join(folder, 'gone')], `'${tmpdir()}' is no file or folder under upload_roots`],
    ['says what to use for a folder', [tmpdir()], `'${folder}' is a folder: use upload_dir`, 'upload_file', folder],
  ] as const)('%s', async (_, roots, detail, kind: 'upload_dir' | 'upload_file' = 'upload_dir', source = tmpdir()) => {
    const target = join(folder, 'target')
    expect(await upload(kind, source, target, roots)).toEqual({ ok: false, error: { code: 'upload-refused', detail } })
  })
})

describe('a folder that is uploaded', () => {
  it('has its links copied as links: what they name outside the roots stays there', async () => {
    const source = join(folder, 'skills')
    const target = join(folder, 'sandbox', 'skills')
    writeFileSync(join(folder, 'secret.txt'), 'secret')
    mkdirSync(join(source, 'tidy'), { recursive: true })
    writeFileSync(join(source, 'tidy', 'SKILL.md'), 'tidy')
    symlinkSync('../../secret.txt', join(source, 'tidy', 'notes.md'))
    symlinkSync(folder, join(source, 'all'))
    expect(await upload('upload_dir', source, target, [source])).toEqual({ ok: true, value: null })
    expect(lstatSync(join(target, 'tidy', 'SKILL.md')).isFile()).toBe(true)
    expect([readlinkSync(join(target, 'tidy', 'notes.md')), readlinkSync(join(target, 'all'))]).toEqual(['../../secret.txt', folder])
  })
})
