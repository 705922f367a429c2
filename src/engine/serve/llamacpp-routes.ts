// The routes that only llama.cpp's server has: its template, its tokenizer, and what it says of itself.
import { z } from 'zod'
import { chatRequestSchema } from '../wire/chat-request.ts'
import { encodeText, type Reader } from './asked.ts'
import { renderRequest } from './prompt.ts'
import { bad, ok, type Route, refused, type ServedEngine } from './route.ts'
import { unsupportedPart } from './template-input.ts'

const templated = chatRequestSchema.pick({ messages: true, tools: true, add_generation_prompt: true, chat_template_kwargs: true })

export const LLAMACPP_ROUTES: Readonly<Record<string, Route>> = {
  'GET /health': () => ok({ status: 'ok' }),
  'GET /v1/health': () => ok({ status: 'ok' }),
  'GET /v1/models': ({ engine, reader }) =>
    ok({ models: [{ name: engine.model, model: engine.model }], object: 'list', data: [modelInfo(engine, reader)] }),
  'GET /props': ({ engine, reader }) =>
    ok({
      default_generation_settings: { n_ctx: reader.maxModelLen, params: {} },
      total_slots: 1,
      model_alias: engine.model,
      model_path: engine.model,
      modalities: { vision: reader.takesImages, audio: false },
    }),
  'POST /apply-template': ({ engine, reader, body }) => {
    const parsed = templated.safeParse(body)
    if (!parsed.success) return bad(engine, `messages: ${parsed.error.issues[0]?.message ?? 'is not valid'}`, 'messages')
    const part = unsupportedPart(parsed.data.messages, reader.takesImages)
    if (part !== null) return bad(engine, 'unsupported content[].type', 'messages')
    const rendered = renderRequest(reader.language, parsed.data)
    return rendered.ok ? ok({ prompt: rendered.text }) : bad(engine, rendered.message, 'messages')
  },
  // This vocabulary has no token that `add_special` would add, and names of special tokens are always read as such.
  'POST /tokenize': ({ engine, reader, body }) => {
    const parsed = z.looseObject({ content: z.string() }).safeParse(body)
    const encoded = encodeText(reader, parsed.success ? parsed.data.content : '')
    return encoded.ok ? ok({ tokens: encoded.ids }) : refused(engine, encoded.complaint)
  },
  'POST /detokenize': ({ reader, body }) => {
    const parsed = z.looseObject({ tokens: z.array(z.int().min(0)) }).safeParse(body)
    return ok({ content: parsed.success ? reader.language.decode(parsed.data.tokens) : '' })
  },
}

function modelInfo(engine: ServedEngine, { language, maxModelLen }: Reader): object {
  return {
    id: engine.model,
    aliases: [],
    object: 'model',
    created: Math.floor(engine.scheduler.clock.wallMs() / 1000),
    owned_by: 'llamacpp',
    meta: { n_vocab: language.vocabularySize, n_ctx: maxModelLen, n_ctx_train: maxModelLen },
  }
}
