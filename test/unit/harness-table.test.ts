import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { type Fact, readFacts, writeFact } from '../../scripts/harness-facts.ts'
import { type AgentFacts, tableOf } from '../../scripts/harness-table.ts'

const folder = mkdtempSync(join(tmpdir(), 'polar-facts-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const way = (dialect: string, routes: readonly string[], calls: readonly number[]): Fact => ({
  type: 'way',
  harness: 'tool',
  dialect,
  routes: [...routes],
  calls: [...calls],
})
const told = (...diagnostics: string[]): Fact => ({ type: 'told', harness: 'tool', diagnostics })
const edges = (...kinds: string[]): Fact => ({ type: 'edges', harness: 'tool', kinds })

const rowOf = (facts: readonly Fact[], more: Partial<AgentFacts> = {}): readonly string[] => {
  const [, , row = ''] = tableOf([{ harness: 'tool', package: '@x/tool', version: '1.2.3', licence: 'MIT', facts, ...more }]).split('\n')
  return row.split('|').map((cell) => cell.trim())
}

describe('the table of agent CLIs', () => {
  it('says of each what all its ways have shown together, each thing once', () => {
    const facts = [
      way('openai-chat', ['POST /v1/chat/completions'], [2, 2]),
      way('anthropic', ['POST /v1/messages', 'HEAD /'], [2, 3]),
      told('history-restored', 'field-dropped'),
      told('history-restored'),
      edges('retry_of'),
      { type: 'bare', harness: 'tool', dialect: 'openai-chat' } as const,
      edges('aux', 'subagent_of', 'compaction_of'),
    ]
    expect(rowOf(facts)).toEqual([
      ...['', '`@x/tool`', '`tool`', '1.2.3', '`anthropic`, `openai-chat`'],
      ...['`HEAD /`, `POST /v1/chat/completions`, `POST /v1/messages`', '2 to 3', '`field-dropped`, `history-restored`'],
      ...['sub-agents, compacted histories, side calls', '`openai-chat`', ''],
    ])
  })

  it('leaves open what nothing has shown', () => {
    expect(rowOf([]).slice(4)).toEqual(['–', '–', '–', '–', '–', '–', ''])
    expect(rowOf([edges('retry_of'), way('google', [], [2])]).slice(4)).toEqual(['`google`', '–', '2', '–', '–', '–', ''])
  })

  it('names a closed-source binary as what it is', () => {
    expect(rowOf([], { licence: 'SEE LICENSE IN README.md' })[1]).toBe('`@x/tool`, a closed-source binary')
    expect(rowOf([], { licence: null })[1]).toBe('`@x/tool`')
  })

  it('is the same whichever suite wrote first', () => {
    const agents = ['b', 'a'].map((harness): AgentFacts => ({ harness, package: harness, version: '1', licence: null, facts: [] }))
    expect(tableOf(agents)).toBe(tableOf(agents.toReversed()))
  })
})

describe('facts', () => {
  it('are read as they were written, of all suites', () => {
    const facts = [way('google', ['GET /v1/models'], [2]), told('a'), edges('subagent_of')]
    for (const [at, fact] of facts.entries()) writeFact(join(folder, 'some'), at === 2 ? 'b-suite' : 'a-suite', fact)
    expect(readFacts(join(folder, 'some'))).toEqual(facts)
    expect(readFacts(join(folder, 'none'))).toEqual([])
  })

  it('are refused when they are none, rather than left out of the table', () => {
    writeFact(join(folder, 'bad'), 'suite', told('a'))
    writeFileSync(join(folder, 'bad/other.jsonl'), '{"type":"rumour"}\n')
    expect(() => readFacts(join(folder, 'bad'))).toThrow()
  })
})
