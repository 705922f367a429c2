// Broken rules of the Anthropic dialect: what a later turn's prompt shares with an earlier one, what a client is told, what it may ask.
import type { PlantedFault } from '../fault.ts'

const DIALECT = 'src/proxy/dialects/anthropic'

export const ANTHROPIC_FAULTS: readonly PlantedFault[] = [
  {
    name: 'Claude Code’s billing line reaches the prompt',
    file: `${DIALECT}/system.ts`,
    find: "return words.replace(BILLING_LINE, '')",
    replace: 'return words',
    suites: ['test/unit/dialect-anthropic-session.test.ts'],
  },
  {
    name: 'a block that held nothing but the billing line stays as an empty one',
    file: `${DIALECT}/system.ts`,
    find: "return words === '' ? [] : [{ ...part, text: words }]",
    replace: 'return [{ ...part, text: words }]',
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'system messages among the others are moved to the front',
    file: `${DIALECT}/history.ts`,
    find: "joinTurns(mergeLeadingSystem([...readSystem(system, 'system', diagnostics), ...read]))",
    replace:
      "joinTurns(mergeLeadingSystem([...readSystem(system, 'system', diagnostics), ...read].sort((one, other) => Number(other.role === 'system') - Number(one.role === 'system'))))",
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'a system message parts a call from its result',
    file: `${DIALECT}/history.ts`,
    find: '} else behind.push(message)',
    replace: '} else placed.push(message)',
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'the images of a tool result are dropped',
    file: `${DIALECT}/history.ts`,
    find: "      for (const part of parts) if (part.type !== 'text') images.push(part)\n",
    replace: '',
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'one turn in several messages becomes several turns',
    file: `${DIALECT}/history.ts`,
    find: 'if (origin !== undefined && message.origin !== undefined && message.origin !== origin) end()',
    replace: 'if (origin === undefined || message.origin !== origin) end()',
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'the signature of a thought is not read',
    file: `${DIALECT}/history.ts`,
    find: '    origin ??= call\n',
    replace: '',
    suites: ['test/unit/dialect-anthropic-history.test.ts'],
  },
  {
    name: 'a document that no template can show vanishes',
    file: `${DIALECT}/blocks.ts`,
    find: 'return refuse(place, `a document can be given as',
    replace: 'if (source.type !== undefined) return []\n      return refuse(place, `a document can be given as',
    suites: ['test/unit/dialect-anthropic-request.test.ts'],
  },
  {
    name: 'a training session may force a tool',
    file: `${DIALECT}/tools.ts`,
    find: "if (wanted !== 'auto' && wanted !== 'none') refuseInTraining('tool_choice', tier)",
    replace: "if (tier === 'train' && wanted === 'required') throw new Refusal(constrained('tool_choice'))",
    suites: ['test/unit/dialect-anthropic-request.test.ts'],
  },
  {
    name: 'arguments that are no object stream as they are',
    file: `${DIALECT}/stream.ts`,
    find: 'pieces(objectText(block.input))',
    replace: 'pieces(block.input)',
    suites: ['test/unit/dialect-anthropic-reply.test.ts'],
  },
  {
    name: 'cached tokens count twice',
    file: `${DIALECT}/response.ts`,
    find: 'input_tokens: promptTokens - cached,',
    replace: 'input_tokens: promptTokens,',
    suites: ['test/unit/dialect-anthropic-reply.test.ts'],
  },
  {
    name: 'a streamed thought has no signature',
    file: `${DIALECT}/stream.ts`,
    find: "return [{ type: 'signature_delta', signature: signatureOf(identity.id) }]",
    replace: 'return []',
    suites: ['test/unit/dialect-anthropic-sdk.test.ts'],
  },
  {
    name: 'a head that leaves early begins the message a second time',
    file: 'src/proxy/exchange.ts',
    find: '  return pour(client, stream, outcome.answer)',
    replace: '  if (isCommitted) client.write(stream.open(outcome.answer))\n  return pour(client, stream, outcome.answer)',
    suites: ['test/unit/dialect-anthropic-session.test.ts'],
  },
  {
    name: 'a prompt that is too long is told in the engine’s words only',
    file: `${DIALECT}/error.ts`,
    find: "failure.code === 'context-overflow' ? overflowMessage(failure.message) : failure.message",
    replace: 'failure.message',
    suites: ['test/unit/dialect-anthropic-session.test.ts'],
  },
  {
    name: 'a refusal invites Claude Code to try again',
    file: 'src/proxy/dialects/failure-headers.ts',
    find: "...(failure.isFinal ? { 'x-should-retry': 'false' } : {})",
    replace: '...{}',
    suites: ['test/unit/dialect-anthropic-reply.test.ts'],
  },
]
