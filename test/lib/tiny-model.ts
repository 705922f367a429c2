// A GGUF file of random weights that an engine loads in a moment: what it says is noise, its tokens and probabilities are a model's.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makeModel } from '../../examples/tiny-policy/make.ts'

export type TinyModel = { readonly folder: string; readonly path: string; readonly name: string; remove(): void }

export function writeTinyModel(): TinyModel {
  const folder = mkdtempSync(join(tmpdir(), 'polar-model-'))
  const path = join(folder, 'noise.gguf')
  const name = 'noise'
  writeFileSync(path, makeModel({ name, merges: 512, width: 32, layers: 1, heads: 2, keyHeads: 1, headWidth: 16, feedForward: 48 }))
  return { folder, path, name, remove: () => rmSync(folder, { recursive: true, force: true }) }
}
