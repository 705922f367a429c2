import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { HarnessContext } from '../../src/harness/harness.ts'
import { type AgentProgram, PROGRAM_SETTINGS, programOf } from '../../src/harness/program.ts'
import { loadHarnesses } from '../../src/harness/registry.ts'
import { agentOf, contextOf, fileOf, planOf } from '../lib/harness-context.ts'

const CLI: AgentProgram = { harness: 'tool', folder: 'the-tool', entry: 'bin/tool.js', isScript: false, command: 'tool' }
const none = { installedAgent: () => null }

function start(settings: Record<string, unknown>, more: Partial<HarnessContext> = {}, program = CLI): ReturnType<typeof programOf> {
  const context = contextOf({ harness: 'pi' }, more)
  return programOf(program, context, z.strictObject(PROGRAM_SETTINGS).parse(settings), { PATH: '/image/bin' })
}

describe('the program of an agent CLI', () => {
  it.each<[string, Record<string, unknown>, Partial<HarnessContext>, string, readonly string[]]>([
    ['this node’s own copy', {}, {}, "'/agents/the-tool/bin/tool.js'", []],
    ['this node’s own copy in the version that is asked for', { version: '1.2.3' }, {}, "'/agents/the-tool/bin/tool.js'", []],
    ['the image’s where this node has none', {}, none, "'tool'", ['program']],
    ['the image’s where it is asked for', { install: 'image' }, {}, "'tool'", ['program']],
    ['the image’s in a version', { install: 'image', version: '1.2.3' }, {}, "'tool'", ['program', 'version']],
    ['whatever has its name', { install: 'none' }, {}, "'tool'", []],
  ])('is %s', (_name, settings, more, words, steps) => {
    const program = start(settings, more)
    expect(program).toMatchObject({ ok: true, words })
    expect(program.ok && program.setup.map(({ label, isFinal, env }) => [label, isFinal, env.PATH])).toEqual(
      steps.map((label) => [label, true, '/image/bin']),
    )
  })

  it('is run by Node where it is a script', () => {
    expect(start({}, {}, { ...CLI, isScript: true })).toMatchObject({ words: `'${process.execPath}' '/agents/the-tool/bin/tool.js'` })
  })

  it('is not this node’s own copy in another version: both are named, and what may be done', () => {
    const program = start({ version: '2.0.0' })
    expect(program.ok ? '' : program.error).toMatch(/'tool' is to run version 2\.0\.0, and this node's own copy is 1\.2\.3: .*'image'/)
  })

  describe('of an image', () => {
    const folder = mkdtempSync(join(tmpdir(), 'polar-program-'))
    afterAll(() => rmSync(folder, { recursive: true, force: true }))

    /** Does the steps with a `tool` on the PATH that answers `said`; null has none there. What they complain of, or nothing. */
    function take(settings: Record<string, unknown>, said: string | null, more: Partial<HarnessContext> = {}): string {
      rmSync(join(folder, 'tool'), { force: true })
      if (said !== null) {
        writeFileSync(join(folder, 'tool'), `#!/bin/sh\n[ "$1" = --version ] && printf '%s' '${said}'\n`)
        chmodSync(join(folder, 'tool'), 0o755)
      }
      const program = start({ install: 'image', ...settings }, more)
      try {
        for (const { command } of program.ok ? program.setup : []) {
          execFileSync('/bin/sh', ['-c', command], { env: { PATH: `${folder}:/usr/bin:/bin` }, stdio: 'pipe', encoding: 'utf8' })
        }
        return ''
      } catch (error) {
        return error instanceof Error && 'stderr' in error ? String(error.stderr) : String(error)
      }
    }

    it.each(['1.2.3', 'v1.2.3\n', 'tool-cli 1.2.3', '1.2.3 (The Tool)', 'a warning *\n1.2.3'])(
      'is taken when it says of itself %j',
      (said) => {
        expect(take({ version: '1.2.3' }, said)).toBe('')
      },
    )

    it.each(['1.2.30', '11.2.3', 'tool 2.0.0', '1.2.3-beta', '1x2.3', ''])(
      'is refused when it says of itself %j, by both versions',
      (said) => {
        const complaint = take({ version: '1.2.3' }, said)
        expect(complaint).toContain(`'tool' is to run version 1.2.3, and the tool on the sandbox's PATH says of itself: ${said};`)
        expect(complaint).toContain('install 1.2.3 there, or change agent.settings.version')
      },
    )

    it('is missed by its name before anything runs', () => {
      expect(take({}, '1.2.3')).toBe('')
      expect(take({}, null)).toMatch(/there is no tool on the sandbox's PATH$/)
      expect(take({ install: 'auto' }, null, none)).toMatch(
        /no tool on the sandbox's PATH, and this node has no copy.*scripts\/agents\.ts the-tool/,
      )
    })
  })
})

// Every one that there is: a new preset is held to the same.
const built = await loadHarnesses({})
const presets = built.names.flatMap((name) => (name === 'shell' ? [] : (built.find(agentOf({ harness: name })) ?? [])))

describe.each(presets)('$name', (harness) => {
  const { name } = harness

  it('takes an instruction by file: its prompt names the file, and its length knows no bound', () => {
    const instruction = `--help\n${'x'.repeat(2_000_000)}`
    const plan = planOf(harness, contextOf({ harness: name, settings: { instruction: 'file' } }, { instruction }))
    expect(plan.run.command).toMatch(/^exec .* <'\/box\/home\/\.polar\/prompt\.md'$/)
    expect(fileOf(plan, 'prompt.md')).toContain('/box/home/.polar/instruction.md')
    expect(fileOf(plan, 'instruction.md')).toBe(instruction)
  })

  it('hands the task’s skills on, keeps logs of its home alone, and starts what it was told to', () => {
    const spec = { harness: name, skills_path: '/srv/skills', settings: { install: 'none' } }
    const plan = planOf(harness, contextOf(spec))
    expect(plan.uploads).toEqual([{ source: '/srv/skills', target: expect.stringMatching(/^\/box\/home\/\..*\/skills$/) }])
    expect(planOf(harness, contextOf({ harness: name })).uploads).toEqual([])
    expect(plan.logs?.length).toBeGreaterThan(0)
    for (const path of plan.logs ?? []) expect(path).toMatch(/^\/box\/home\/\../)
    expect(plan.run.command).toMatch(/^exec '[a-z]+' /)
    expect(plan.setup.map(({ label }) => label)).toEqual(['folders'])
  })

  it.each<[string, Record<string, unknown>, string]>([
    ['a version that nothing looks at', { install: 'none', version: '1.2.3' }, 'agent.settings.version'],
    ['a version that is none', { version: '1.2.3; rm' }, 'agent.settings.version'],
    ['another way to install', { install: 'npm' }, 'agent.settings.install'],
    ['another way to be told', { instruction: 'argument' }, 'agent.settings.instruction'],
  ])('refuses %s when the task is submitted', (_case, settings, word) => {
    expect(harness.check(agentOf({ harness: name, settings }))).toContain(word)
  })
})
