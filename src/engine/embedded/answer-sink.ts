// Where a request's choices go as they grow: into one answer at the end, or live into a stream.
import type { ServerResponse } from 'node:http'
import type { AnswerForm, Asked } from '../serve/asked.ts'
import { beginEvents, endEvents, sendJson, writeEvents } from '../serve/reply.ts'
import type { GeneratedChoice, Generation } from '../wire/generation.ts'
import type { StreamWriter } from '../wire/shape.ts'
import { openAnswerDeltas } from './answer-deltas.ts'
import type { GrowingChoice } from './growing-choice.ts'

export type AnswerSink = {
  /** A token has been drawn for a choice. */
  grown(now: () => Generation, choice: GrowingChoice): void
  /** All choices have ended. */
  end(generation: Generation): void
}

/**
 * Once the signal is aborted nothing more is written. A client that reads slowly holds no seat, let alone new weights: while it has
 * not read what was sent, its tokens gather for the next event.
 */
export function openAnswerSink(form: AnswerForm, asked: Asked, response: ServerResponse, gone: AbortSignal): AnswerSink {
  if (form.type === 'stream') return openStream(form.writer, asked, response, gone)
  return {
    grown: () => {},
    end(generation) {
      if (!gone.aborted) sendJson(response, 200, form.whole(generation))
    },
  }
}

function openStream(writer: StreamWriter, asked: Asked, response: ServerResponse, gone: AbortSignal): AnswerSink {
  const deltas = Array.from({ length: asked.choices }, () => openAnswerDeltas(asked))
  const ended = new Set<number>()
  let hasBegun = false

  /** Headers leave with the first token, so that what goes wrong before keeps its status. */
  const openingOf = (generation: Generation): readonly object[] => {
    if (hasBegun) return []
    hasBegun = true
    beginEvents(response)
    return writer.opening(generation)
  }
  const deltasOf = (generation: Generation, choice: GeneratedChoice, safeText: string): readonly object[] => {
    const delta = deltas[choice.index]?.next(choice, safeText)
    if (delta === undefined) return []
    if (delta.isLast) ended.add(choice.index)
    return writer.delta(generation, choice, delta)
  }
  const send = (events: readonly object[]) => {
    writeEvents(
      response,
      events.map((event) => JSON.stringify(event)),
    )
  }
  return {
    grown(now, choice) {
      if (gone.aborted || response.writableNeedDrain) return
      const generation = now()
      send([...openingOf(generation), ...deltasOf(generation, choice.now(), choice.safeText())])
    },
    end(generation) {
      if (gone.aborted) return
      // Those that were ended from outside have not said so yet.
      const left = generation.choices.filter(({ index }) => !ended.has(index))
      const last = left.flatMap((choice) => deltasOf(generation, choice, choice.text))
      send([...openingOf(generation), ...last, ...writer.closing(generation)])
      endEvents(response, writer.saysDone)
    },
  }
}
