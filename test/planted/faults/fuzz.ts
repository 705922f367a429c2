// Broken rules that the fuzz of the boundary must notice: what no single request shows, and what only an odd one does.
import type { PlantedFault } from '../fault.ts'

const FUZZ = ['test/conformance/proxy-fuzz.test.ts']
const TOTALITY = ['test/property/dialect-totality.test.ts']

export const FUZZ_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a stream that fails after its head says nothing of it',
    file: 'src/proxy/exchange.ts',
    find: '  if (told !== null) return client.end(told)\n',
    replace: '',
    suites: FUZZ,
  },
  {
    name: 'a call keeps its place when it has ended',
    file: 'src/proxy/admitted.ts',
    find: '    ticket.leave()\n',
    replace: '',
    suites: FUZZ,
  },
  {
    name: 'a closed session keeps its token memory',
    file: 'src/proxy/capture.ts',
    find: 'close: () => tokens.close(),',
    replace: 'close: () => {},',
    suites: FUZZ,
  },
  {
    name: 'a body may unpack to any size',
    file: 'src/proxy/body.ts',
    find: 'decoder(decoded, { maxOutputLength })',
    replace: 'decoder(decoded, { maxOutputLength: 2 ** 30 })',
    suites: ['test/unit/proxy-request-memory.test.ts'],
  },
  {
    name: 'a body may be nested to any depth',
    file: 'src/proxy/json.ts',
    find: 'const MAX_DEPTH = 512',
    replace: 'const MAX_DEPTH = 1e9',
    suites: ['test/unit/proxy-nesting.test.ts'],
  },
  {
    name: 'a generation is asked for twice and recorded once',
    file: 'src/proxy/engines/chat-completions.ts',
    find: '      const reply = await send(written.http)',
    replace: '      await send(written.http)\n      const reply = await send(written.http)',
    suites: FUZZ,
  },
  {
    name: 'the ledger is not told how much of an answer was taken',
    file: 'src/proxy/door.ts',
    find: '        keep(host.recordCall(record))\n',
    replace: '',
    suites: FUZZ,
  },
  {
    name: 'a request without a host is refused without a word',
    file: 'src/proxy/model-port.ts',
    find: 'requireHostHeader: false',
    replace: 'requireHostHeader: true',
    suites: ['test/unit/proxy-model-port.test.ts'],
  },
  {
    name: 'an expectation nobody knows is refused without a word',
    file: 'src/proxy/model-port.ts',
    find: "  server.on('checkExpectation', serve)\n",
    replace: '',
    suites: ['test/unit/proxy-model-port.test.ts'],
  },
  {
    name: 'logprobs that are no numbers are told to a client',
    file: 'src/proxy/engines/completion.ts',
    find: 'isObject(entry) && Number.isFinite(entry.logprob)',
    replace: 'isObject(entry)',
    suites: ['test/unit/proxy-engines.test.ts'],
  },
  {
    name: 'Google passes on a conversation that says nothing',
    file: 'src/proxy/dialects/google/request.ts',
    find: 'if (call.request.messages.length === 0)',
    replace: 'if (call.request.messages.length < 0)',
    suites: ['test/unit/dialect-google-request.test.ts'],
  },
  {
    name: 'metadata that is no text is repeated in a response',
    file: 'src/proxy/dialects/openai-responses/request.ts',
    find: "filter(([, value]) => typeof value === 'string')",
    replace: 'filter(() => true)',
    suites: ['test/unit/dialect-responses-reply.test.ts'],
  },
  {
    name: 'an engine’s body is quoted to the client',
    file: 'src/proxy/engines/completion.ts',
    find: "'the body is not JSON'",
    replace: 'parsed.detail',
    suites: ['test/unit/proxy-engines.test.ts'],
  },
  {
    name: 'a reader trusts the type of a field',
    file: 'src/proxy/dialects/reading.ts',
    find: 'return Array.isArray(value) ? value : refuse(place, `expected an array',
    replace: 'return Array.isArray(value) || value !== undefined ? (value as readonly unknown[]) : refuse(place, `expected an array',
    suites: TOTALITY,
  },
  {
    name: 'a refusal quotes all of a long body',
    file: 'src/proxy/dialects/reading.ts',
    find: 'const MAX_CHARS = 400',
    replace: 'const MAX_CHARS = 1e9',
    suites: TOTALITY,
  },
  {
    name: 'a field is refused under another name than the caller’s',
    file: 'src/proxy/dialects/openai-chat/request.ts',
    find: "optionalBudget(body.max_completion_tokens, 'max_completion_tokens')",
    replace: "optionalBudget(body.max_completion_tokens, 'max_tokens')",
    suites: TOTALITY,
  },
]
