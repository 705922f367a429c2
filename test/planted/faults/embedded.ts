// Broken rules of the embedded engine: what is streamed, when a choice ends, who holds a seat, and which weights answer.
import type { PlantedFault } from '../fault.ts'

const CHOICE = 'test/unit/embedded-choice.test.ts'
const LANGUAGE = 'test/unit/embedded-language.test.ts'
const ENGINE = 'test/conformance/embedded-engine.test.ts'
const MODEL = 'test/conformance/embedded-engine-model.test.ts'

export const EMBEDDED_FAULTS: readonly PlantedFault[] = [
  {
    name: 'half a character is streamed',
    file: 'src/engine/embedded/growing-text.ts',
    find: 'if (!openText.endsWith(HALF) || open.length >= LONGEST_WAIT) {',
    replace: 'if (open.length > 0 || open.length >= LONGEST_WAIT) {',
    suites: [CHOICE],
  },
  {
    name: 'the beginning of a stop string is streamed before it is known to be one',
    file: 'src/engine/embedded/growing-choice.ts',
    find: 'finish === null ? text.slice(0, text.length - begunStop(text, stops)) : text',
    replace: 'finish === null ? text.slice(0, text.length - 0 * begunStop(text, stops)) : text',
    suites: [CHOICE],
  },
  {
    name: 'a stop string that two tokens spell is not found',
    file: 'src/engine/embedded/growing-choice.ts',
    find: 'Math.max(0, searchedTo - longestStop + 1)',
    replace: 'searchedTo + 0 * longestStop',
    suites: [CHOICE],
  },
  {
    name: 'content is streamed that turns out to be a tool call',
    file: 'src/engine/embedded/answer-deltas.ts',
    find: 'text.length - beginningAtEnd(text, CALL_OPEN) : call',
    replace: 'text.length - 0 * beginningAtEnd(text, CALL_OPEN) : call',
    suites: [CHOICE],
  },
  {
    name: 'line breaks before a tool call are streamed and then taken back',
    file: 'src/engine/embedded/answer-deltas.ts',
    find: 'content: trimEnd(beforeCalls(text)) }',
    replace: 'content: beforeCalls(text) }',
    suites: [CHOICE],
  },
  {
    name: 'a template strips more than Python would',
    file: 'src/engine/embedded/jinja-template.ts',
    find: 'while (start < text.length && characters.includes(text.charAt(start))) start += 1',
    replace: "while (start < text.length && characters.length > 0 && text.charAt(start).trim() === '') start += 1",
    suites: [LANGUAGE],
  },
  {
    name: 'a seat is kept for a client that has left',
    file: 'src/engine/embedded/exchange.ts',
    find: "over.signal.addEventListener('abort', hold.stop, { once: true })",
    replace: "over.signal.addEventListener('abort', () => hold.signal, { once: true })",
    suites: [ENGINE],
    tests: 'ends when its client leaves',
  },
  {
    name: 'a frozen generation draws on',
    file: 'src/engine/embedded/hold.ts',
    find: 'while (thawed !== null && !stopped.signal.aborted) await thawed.promise',
    replace: 'while (thawed !== null && stopped.signal.aborted) await thawed.promise',
    suites: [ENGINE],
    tests: 'by keep asks for no further token',
  },
  {
    name: 'new weights take over while the old ones still generate',
    file: 'src/engine/serve/batch.ts',
    find: '      await whenDrained()\n      return () => {',
    replace: '      return () => {',
    suites: [ENGINE],
    tests: 'wait for what runs, which ends',
  },
  {
    name: 'what waited for new weights is generated from the ids of the old ones',
    file: 'src/engine/embedded/exchange.ts',
    find: 'weights === arrived.weights ? arrived : readWith',
    replace: 'weights !== null ? arrived : readWith',
    suites: [ENGINE],
    tests: 'of another vocabulary read anew',
  },
  {
    name: 'a file that cannot be loaded ends the weights that serve',
    file: 'src/engine/embedded/weights.ts',
    find: '    if (!loaded.ok) return loaded\n',
    replace: '    if (!loaded.ok) {\n      await current?.model.close()\n      return loaded\n    }\n',
    suites: [ENGINE],
    tests: 'leave the old ones serving',
  },
  {
    name: 'every request is drawn with the same seed',
    file: 'src/engine/embedded/generating-request.ts',
    find: "['serial', seed, serial]",
    replace: "['serial', seed]",
    suites: [ENGINE],
    tests: 'has the seed of its request',
  },
  {
    name: 'choices of one request are drawn with the same seed',
    file: 'src/engine/embedded/generating-request.ts',
    find: "seededNumbers(...words, 'choice', index)",
    replace: "seededNumbers(...words, 'choice')",
    suites: [MODEL],
    tests: 'draws choices that differ',
  },
  {
    name: 'weights are loaded for whoever asks',
    file: 'src/engine/serve/routes.ts',
    find: 'input.isLoopback ? route(input)',
    replace: 'input !== null ? route(input)',
    suites: ['test/unit/embedded-weights.test.ts'],
  },
]
