// What the model samples, turn by turn: reasoning, text and tool calls, written as Qwen writes them.
import type { AnswerSource } from '../../src/engine/scripted/answers.ts'
import { pythonJsonOf } from '../../src/engine/scripted/python-json.ts'

/** `input` is JSON text as it is sampled: a number written 10.0 must come back as it was. */
export type SampledCall = { readonly name: string; readonly input: string }

export type SampledTurn = {
  readonly think?: string
  readonly text?: string
  readonly calls?: readonly SampledCall[]
  /** How long the engine takes. */
  readonly tookMs?: number
}

/** What a turn may depend on: the last message, which carries the results of the turn before. */
export type Script = readonly ((last: string) => SampledTurn)[]

export const call = (name: string, input: Readonly<Record<string, unknown>>): SampledCall => ({ name, input: pythonJsonOf(input) })

function sampledText({ think, text, calls = [] }: SampledTurn): string {
  const thinking = think === undefined ? '' : `<think>\n${think}\n</think>\n\n`
  const spoken = calls.map(({ name, input }) => `<tool_call>\n{"name": "${name}", "arguments": ${input}}\n</tool_call>`)
  return thinking + (text === undefined ? spoken : [text, ...spoken]).join('\n')
}

export type Model = AnswerSource & {
  play(script: Script): void
  /** Hears of every generation before it is sampled, by its number since `play`. */
  onAsked(listener: (generation: number) => void): void
}

/** Answers turn k of any conversation that offers tools with the script's step k; one that offers none is a side question. */
export function openModel(): Model {
  let script: Script = []
  let generation = 0
  let heard: (generation: number) => void = () => {}
  return {
    play(next) {
      script = next
      generation = 0
      heard = () => {}
    },
    onAsked(listener) {
      heard = listener
    },
    answer(conversation) {
      const isSide = conversation.tools.length === 0
      if (!isSide) {
        generation += 1
        heard(generation)
      }
      const turn = isSide ? { text: 'A side answer.' } : script[conversation.turn - 1]?.(conversation.lastText)
      return {
        text: turn === undefined ? 'The script is over.' : sampledText(turn),
        finish: 'stop',
        ttftMs: turn?.tookMs ?? null,
        msPerToken: null,
        variant: null,
      }
    },
  }
}
