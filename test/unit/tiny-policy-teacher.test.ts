import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openTeacher } from '../../examples/tiny-policy/teacher.ts'
import { BROKEN, RIGHT, WRONG } from '../../examples/tiny-policy/wordings.ts'
import { conversationOf } from '../../src/engine/scripted/conversation.ts'
import { parseAnswer } from '../../src/engine/serve/answer-text.ts'
import type { ChatMessage, ChatTool } from '../../src/engine/wire/chat-request.ts'

const repo = resolve(import.meta.dirname, '../../examples/demo/repo')
const file = (name: string): string => readFileSync(`${repo}/${name}`, 'utf8')
const BASH: ChatTool = { type: 'function', function: { name: 'bash' } }

/** What the command would print, as far as the teacher looks at it; `written` is the last fix. */
function printed(command: string, written: string): string {
  if (command === 'node test.js') {
    if (BROKEN.some((fix) => fix.command === written)) return 'SyntaxError: missing ) after argument list'
    return RIGHT.some((fix) => fix.command === written) ? 'PASSED drops punctuation' : 'FAILED drops punctuation'
  }
  const names = command.split(/[\s;&]+/)
  const missing = names
    .filter((name) => /^tests\.js$|^test\/slug\.js$/.test(name))
    .map((name) => `cat: ${name}: No such file or directory\n`)
  const listed = names[0] === 'ls' ? 'package.json\nslug.js\ntest.js\n' : ''
  const shown = command.startsWith('cat >') ? [] : names.filter((name) => name === 'slug.js' || name === 'test.js').map(file)
  return command.startsWith('sed') ? '' : listed + shown.join('') + missing.join('')
}

type Played = { readonly commands: readonly string[]; readonly last: string }

function play(teacher: ReturnType<typeof openTeacher>): Played {
  const messages: ChatMessage[] = [{ role: 'user', content: 'Fix slug.js.' }]
  const commands: string[] = []
  let written = ''
  for (;;) {
    const parts = parseAnswer(teacher.answer(conversationOf(messages, [BASH]), null).text, true)
    const call = parts.find((part) => part.kind === 'tool-call')
    const said = parts.flatMap((part) => (part.kind === 'content' ? [part.text] : [])).join('')
    if (call === undefined) return { commands, last: said }
    const command: string = JSON.parse(call.arguments).command
    commands.push(command)
    if (/^cat >|^sed/.test(command)) written = command
    messages.push({
      role: 'assistant',
      content: said,
      tool_calls: [{ id: 'c', type: 'function', function: { name: 'bash', arguments: call.arguments } }],
    })
    messages.push({ role: 'tool', content: printed(command, written) })
  }
}

describe('the scripted policy', () => {
  const teacher = openTeacher(1)
  const played = Array.from({ length: 400 }, () => play(teacher))
  const share = (holds: (one: Played) => boolean): number => played.filter(holds).length / played.length
  const isIn = (fixes: readonly { readonly command: string }[], command: string): boolean => fixes.some((fix) => fix.command === command)

  it('looks first, fixes in every conversation, and ends with a sentence after at most seven commands', () => {
    for (const { commands, last } of played) {
      expect(commands[0]).toMatch(/^(cat|ls)/)
      expect(commands.some((command) => isIn([...RIGHT, ...WRONG, ...BROKEN], command))).toBe(true)
      expect(commands.length).toBeLessThanOrEqual(7)
      expect(last).toMatch(/^[A-Za-z][^<]*\.$/)
    }
  })

  it('is right more often than not, never always, and runs the tests sometimes', () => {
    const lastFix = ({ commands }: Played): string => commands.findLast((command) => /^cat >|^sed/.test(command)) ?? ''
    const solved = share((one) => isIn(RIGHT, lastFix(one)))
    expect(solved).toBeGreaterThan(0.4)
    expect(solved).toBeLessThan(0.8)
    expect(share(({ commands }) => commands.includes('node test.js'))).toBeGreaterThan(0.3)
    expect(share(({ commands }) => commands.includes('node test.js'))).toBeLessThan(0.7)
  })

  it('says the tests pass only after they did', () => {
    for (const { commands, last } of played)
      if (last.includes('all tests pass') && !last.includes('not')) expect(commands).toContain('node test.js')
  })

  it('has nothing to do without a tool', () => {
    expect(teacher.answer(conversationOf([{ role: 'user', content: 'Hello' }], []), null).text).toBe('Done.')
  })
})
