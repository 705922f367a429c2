// Where answers come from: a script's rules, or a generator. One source may feed several engines.

import { writeAnswer } from '../serve/answer-text.ts'
import { contentText } from '../serve/template-input.ts'
import type { EngineFinish } from '../wire/generation.ts'
import { type Bag, openBag } from './bag.ts'
import { type Conversation, firstTurn } from './conversation.ts'
import { answerSignature, type Script, type ScriptChoice, type ScriptRule, type TextMatcher } from './script.ts'

export type Answer = {
  /** What the model would sample, without its end token. */
  readonly text: string
  readonly finish: EngineFinish
  /** Overrides the engine's own latency. */
  readonly ttftMs: number | null
  readonly msPerToken: number | null
  readonly variant: string | null
}

export type AnswerSource = {
  answer(conversation: Conversation, requestSeed: number | null): Answer
}

/** Clients choose the tools they offer, so the number of bags has an end. */
const MAX_BAGS = 1024

/**
 * The first rule that matches answers. Among several choices a stratified bag decides, so that over N conversations
 * every variant occurs in its proportion. Each rule and variant has a bag for each set of tools offered: a probe or an
 * agent's side question, which offers none, takes nothing from the bag of the agents' own conversations.
 */
export function openScriptAnswers(script: Script, seed: number): AnswerSource {
  const bags = new Map<string, Bag>()
  const bagFor = (key: string, choices: readonly ScriptChoice[]): Bag => {
    const weights = choices.map((choice) => choice.weight)
    const bag = bags.get(key) ?? openBag(weights, 'bag', seed, key)
    if (bags.size >= MAX_BAGS && !bags.has(key)) bags.clear()
    bags.set(key, bag)
    return bag
  }
  return {
    answer(conversation) {
      const variant = recogniseVariant(script, conversation)
      for (const [index, rule] of script.rules.entries()) {
        if (!matches(rule, conversation, variant)) continue
        const choices = eligible(rule, conversation, variant)
        if (choices.length === 0) continue
        const tools = conversation.tools.map((tool) => tool.function.name)
        const key = JSON.stringify([index, conversation.turn === 1 ? null : variant, tools])
        const drawn = choices[bagFor(key, choices).draw()]
        if (drawn !== undefined) return answerOf(drawn, drawn.variant ?? variant)
      }
      return answerOf(script.fallback, variant)
    },
  }
}

function answerOf(choice: ScriptChoice, variant: string | null): Answer {
  return {
    text: writeAnswer({ reasoning: choice.reasoning, text: choice.text, toolCalls: choice.tool_calls }),
    finish: choice.finish_reason,
    ttftMs: choice.latency?.ttft_ms ?? null,
    msPerToken: choice.latency?.ms_per_token ?? null,
    variant,
  }
}

/** On the first turn every choice may be drawn; later the conversation's own variant, or choices that name none. */
function eligible(rule: ScriptRule, conversation: Conversation, variant: string | null): readonly ScriptChoice[] {
  if (conversation.turn === 1) return rule.choices
  const own = rule.choices.filter((choice) => variant !== null && choice.variant === variant)
  return own.length > 0 ? own : rule.choices.filter((choice) => choice.variant === undefined)
}

/** An engine sees no sessions: which variant a conversation follows is read from its own first answer. */
function recogniseVariant(script: Script, conversation: Conversation): string | null {
  const first = firstTurn(conversation)
  if (first === null) return null
  const rule = script.rules.find((each) => matches(each, first.before, null))
  const calls = (first.answer.tool_calls ?? []).map((call) => ({ name: call.function.name, arguments: parsed(call.function.arguments) }))
  const signature = answerSignature(contentText(first.answer), calls)
  const choice = rule?.choices.find((each) => answerSignature(each.text, each.tool_calls) === signature)
  return choice?.variant ?? null
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function matches(rule: ScriptRule, conversation: Conversation, variant: string | null): boolean {
  const { turn, last_role, last_contains, system_contains, first_user_contains, has_tool, variant: wanted } = rule.match
  return (
    (turn === undefined || turn === conversation.turn) &&
    (last_role === undefined || last_role === conversation.lastRole) &&
    (last_contains === undefined || contains(conversation.lastText, last_contains)) &&
    (system_contains === undefined || contains(conversation.systemText, system_contains)) &&
    (first_user_contains === undefined || contains(conversation.firstUserText, first_user_contains)) &&
    (has_tool === undefined || conversation.tools.some((tool) => tool.function.name === has_tool)) &&
    (wanted === undefined || wanted === variant)
  )
}

function contains(text: string, matcher: TextMatcher): boolean {
  return typeof matcher === 'string' ? text.includes(matcher) : new RegExp(matcher.regex, matcher.flags).test(text)
}
