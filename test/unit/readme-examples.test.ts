import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ignoredKeys } from '../../src/cli/ignored-keys.ts'
import { loadConfig, parseConfig } from '../../src/config.ts'
import { taskRequestSchema } from '../../src/contract/task.ts'

const root = join(import.meta.dirname, '../..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')

function blocksOf(language: string): readonly string[] {
  return Array.from(readme.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'gm')), ([, text = '']) => text)
}

describe('what the README tells a user to write', () => {
  it('is a task that is understood to its last key', () => {
    const [task, ...others] = blocksOf('json').map((text): unknown => JSON.parse(text))
    expect(others).toEqual([])
    expect(taskRequestSchema.safeParse(task).error).toBeUndefined()
    expect(ignoredKeys(task)).toEqual([])
  })

  it('is a configuration that lets this task upload what it uploads', () => {
    const [text = '', ...others] = blocksOf('yaml')
    expect(others).toEqual([])
    const parsed = parseConfig(text, null, '/here')
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems))
    const { nodes, uploadRoots } = parsed.config
    expect(uploadRoots).toEqual(['/here/repos'])
    expect(nodes.flatMap((node) => node.replicas)).toMatchObject([{ engine: 'vllm', url: 'http://127.0.0.1:8000' }])
    expect(blocksOf('json').join()).toContain('"source": "repos/')
  })

  it('links to a configuration that is valid', async () => {
    expect(readme).toContain('(examples/polar.yaml)')
    expect(await loadConfig(join(root, 'examples/polar.yaml'))).toMatchObject({ ok: true })
  })
})
