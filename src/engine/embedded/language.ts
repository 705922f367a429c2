// A loaded model's language: its vocabulary, and prompts as its own chat template writes them.
import { createHash } from 'node:crypto'
import { compileTemplate, renderQwen, thinkingOf } from '../serve/chat-template.ts'
import type { ChatPrompt, Language, Rendered } from '../serve/language.ts'
import { compileJinja } from './jinja-template.ts'
import type { LoadedModel } from './model.ts'

/** SHA-256 of Qwen3's official template, whose rendering in Python is known to the letter. */
const QWEN3_TEMPLATE = '87a2728cb8dc9fe424d624542f6060ec05a1d285ebbec578bb078900e33396b5'

export function openLanguage({ facts, vocabulary }: Pick<LoadedModel, 'facts' | 'vocabulary'>): Language {
  const { startTokenId, endTokenId } = vocabulary
  return {
    encode: vocabulary.encode,
    decode: (ids) => vocabulary.decode(ids.filter((id) => id < vocabulary.size)),
    vocabularySize: vocabulary.size,
    textStartId: vocabulary.startsEveryText ? startTokenId : null,
    renderPrompt: openRenderer(facts.chatTemplate, {
      bos_token: startTokenId === null ? '' : vocabulary.decode([startTokenId]),
      eos_token: vocabulary.decode([endTokenId]),
    }),
  }
}

type Render = (prompt: ChatPrompt) => Rendered

function openRenderer(source: string | null, tokens: Readonly<Record<string, string>>): Render {
  if (source === null) {
    const message =
      'The model brings no chat template: send the prompt as text or token ids (/generate of SGLang, /completion of llama.cpp).'
    return () => ({ ok: false, message })
  }
  if (createHash('sha256').update(source).digest('hex') === QWEN3_TEMPLATE) {
    const render = compileTemplate(source)
    return ({ templateArguments, ...prompt }) => ({
      ok: true,
      text: renderQwen(render, { ...prompt, enableThinking: thinkingOf(templateArguments) }),
    })
  }
  const compiled = compileJinja(source)
  if (!compiled.ok) {
    const message = `The model's chat template cannot be read: ${compiled.message}`
    return () => ({ ok: false, message })
  }
  return (prompt) => compiled.render(prompt, tokens)
}
