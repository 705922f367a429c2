// System prompts, at the head and between messages: Claude Code's billing line taken out, everything else kept where it stands.
import type { Diagnostic } from '../../../contract/call.ts'
import type { ChatMessage } from '../../chat.ts'
import { note } from '../../notes.ts'
import { contentOf } from '../content.ts'
import { isAbsent, list } from '../reading.ts'
import { readBlock, readParts } from './blocks.ts'

/** Its hash changes with every call, and a prompt that begins with it shares no prefix with the one before. */
const BILLING_LINE = /^(?:x-anthropic-billing-header:[^\r\n]*[\r\n]*)+/

/** A system message, or none where nothing is said. */
export function readSystem(value: unknown, place: string, diagnostics: Diagnostic[]): readonly ChatMessage[] {
  if (isAbsent(value)) return []
  const content = typeof value === 'string' ? withoutBilling(value) : readSystemBlocks(list(value, place), place, diagnostics)
  return content.length === 0 ? [] : [{ role: 'system', content }]
}

function readSystemBlocks(blocks: readonly unknown[], place: string, diagnostics: Diagnostic[]) {
  const parts = blocks.flatMap((value, index) => {
    const here = `${place}[${index}]`
    const block = readBlock(value, here)
    // Which tools are offered is told once, at the head of the prompt; no template changes it in the middle.
    if (block.type === 'tool_addition' || block.type === 'tool_removal') {
      note('block-dropped', `${here}: ${block.type}`, diagnostics)
      return []
    }
    return readParts(block, here, diagnostics).flatMap((part) => {
      if (typeof part.text !== 'string') return [part]
      const words = withoutBilling(part.text)
      return words === '' ? [] : [{ ...part, text: words }]
    })
  })
  return contentOf(parts)
}

function withoutBilling(words: string): string {
  return words.replace(BILLING_LINE, '')
}
