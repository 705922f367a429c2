// The choices of one request while they are drawn, and the generation that they make up at any moment.
import type { Asked } from '../serve/asked.ts'
import { seededHex, seededNumbers, wholeBetween } from '../serve/seeded.ts'
import type { Generation } from '../wire/generation.ts'
import type { AnswerSink } from './answer-sink.ts'
import type { GeneratingEngine } from './generating-engine.ts'
import { type GrowingChoice, openGrowingChoice } from './growing-choice.ts'
import type { Hold } from './hold.ts'
import type { GenerationOrder } from './model.ts'
import type { Weights } from './weights.ts'

export type GeneratingRequest = {
  readonly weights: Weights
  /** Draws one choice until it ends or its hold is stopped. Rejects when the model breaks. */
  draw(index: number, hold: Hold): Promise<void>
  /** Ends what has not ended, and counts how all of it ended. */
  settle(): void
  now(): Generation
}

const SEEDS = 2 ** 32

export function openRequest(
  engine: GeneratingEngine,
  weights: Weights,
  asked: Asked,
  sink: AnswerSink,
  arrivedMs: number,
): GeneratingRequest {
  const { model, version } = weights
  const { shape, seed, tally, scheduler } = engine
  const serial = tally.nextSerial()
  const id = `chatcmpl-${seededHex(32, 'id', seed, serial)}`
  const createdSeconds = Math.floor(scheduler.clock.wallMs() / 1000)
  // A request's own seed fixes its answer; otherwise the order of arrival does, so that equal prompts differ.
  const words = asked.seed === null ? ['serial', seed, serial] : ['request', asked.seed]
  const choices = Array.from({ length: asked.choices }, (_, index) =>
    openGrowingChoice(model.vocabulary, {
      ...asked,
      index,
      lastPromptId: asked.promptIds.at(-1) ?? null,
      toolCallId: (call) => shape.toolCallPrefix + seededHex(24, 'call', seed, serial, index, call),
    }),
  )
  const hasDrawn = choices.map(() => false)
  let cachedTokens = 0
  const elapsedSeconds = () => (scheduler.clock.nowMs() - arrivedMs) / 1000

  const orderOf = (index: number): GenerationOrder => ({
    promptIds: asked.promptIds,
    sampling: {
      temperature: asked.temperature,
      topP: asked.topP,
      topK: asked.topK,
      minP: asked.minP,
      seed: wholeBetween(seededNumbers(...words, 'choice', index), 0, SEEDS - 1),
    },
    logprobMode: engine.logprobMode,
    alternatives: asked.topLogprobs,
  })
  const now = (): Generation => ({
    id,
    createdSeconds,
    model: asked.model ?? engine.model,
    promptIds: asked.promptIds,
    cachedTokens,
    showsPromptIds: true,
    choices: choices.map((choice) => choice.now()),
    weightVersion: version,
    latencySeconds: elapsedSeconds(),
  })

  /** True when the choice goes on. */
  const take = (choice: GrowingChoice, index: number, event: Parameters<GrowingChoice['add']>[0]): boolean => {
    const goesOn = choice.add(event)
    tally.drawn(1)
    if (!hasDrawn[index]) tally.firstToken(elapsedSeconds())
    hasDrawn[index] = true
    sink.grown(now, choice)
    return goesOn
  }
  return {
    weights,
    now,
    async draw(index, hold) {
      const choice = choices[index]
      if (choice === undefined) throw new Error(`there is no choice ${index}`)
      if (asked.maxTokens === 0) return choice.end('length')
      const events = model.generate(orderOf(index), hold.signal)
      try {
        for (let goesOn = true; goesOn; ) {
          await hold.free()
          if (hold.signal.aborted) return
          const { value: event, done } = await events.next()
          if (done === true) return
          if (event.type === 'drawn') {
            goesOn = take(choice, index, event)
            continue
          }
          tally.started(asked.promptIds.length, event.cachedTokens)
          if (index === 0) cachedTokens = event.cachedTokens
        }
      } catch (error) {
        if (!hold.signal.aborted) throw error
      } finally {
        await events.return()
      }
    },
    settle() {
      for (const choice of choices) {
        choice.end('abort')
        tally.finished(choice.now().finish ?? 'abort')
      }
    },
  }
}
