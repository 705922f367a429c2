// What the model samples, turn by turn: reasoning, text and tool calls, written as Qwen writes them.
import type { AnswerSource } from '../../src/engine/scripted/answers.ts'
import { pythonJsonOf } from '../../src/python-json.ts'

/** `input` is JSON text as it is sampled: a number written 10.0 must come back as it was. */
export type SampledCall = { readonly name: string; readonly input: string }

type SampledTurn = {
  readonly think?: string
  readonly text?: string
  readonly calls?: readonly SampledCall[]
  /** How long the engine takes. */
  readonly tookMs?: number
}

/** What a turn may depend on: the last message, which carries the results of the turn before, and the names of the tools offered. */
export type Script = readonly ((last: string, tools: readonly string[]) => SampledTurn)[]

/** Another script for conversations whose first user message holds a text: sub-agents'. */
export type SubScript = { readonly when: string; readonly script: Script }

export const call = (name: string, input: Readonly<Record<string, unknown>>): SampledCall => ({ name, input: pythonJsonOf(input) })

function sampledText({ think, text, calls = [] }: SampledTurn): string {
  const thinking = think === undefined ? '' : `<think>\n${think}\n</think>\n\n`
  const spoken = calls.map(({ name, input }) => `<tool_call>\n{"name": "${name}", "arguments": ${input}}\n</tool_call>`)
  return thinking + (text === undefined ? spoken : [text, ...spoken]).join('\n')
}

export type Model = AnswerSource & {
  play(script: Script, sub?: SubScript | null): void
  /** Hears of every generation before it is sampled, by its number since `play`. */
  onAsked(listener: (generation: number) => void): void
}

/** Answers turn k of any conversation that offers tools with the script's step k; one that offers none is a side question. */
export function openModel(): Model {
  let script: Script = []
  let sub: SubScript | null = null
  let generation = 0
  let heard: (generation: number) => void = () => {}
  return {
    play(next, nextSub = null) {
      script = next
      sub = nextSub
      generation = 0
      heard = () => {}
    },
    onAsked(listener) {
      heard = listener
    },
    answer({ tools, turn, lastText, messages }) {
      const isSide = tools.length === 0
      if (!isSide) {
        generation += 1
        heard(generation)
      }
      const isSub = sub !== null && JSON.stringify(messages.filter(({ role }) => role === 'user').slice(0, 2)).includes(sub.when)
      const names = tools.map((tool) => tool.function.name)
      const step = (isSub ? sub?.script : script)?.[turn - 1]
      const sampled = isSide ? { text: 'What was asked for on the side is answered.' } : step?.(lastText, names)
      return {
        text: sampled === undefined ? 'The script is over.' : sampledText(sampled),
        finish: 'stop',
        ttftMs: sampled?.tookMs ?? null,
        msPerToken: null,
        variant: null,
      }
    },
  }
}
