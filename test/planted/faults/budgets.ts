// Broken rules of a session's budget: what is counted, what is left, who waits, what is told at its end, and whose end it is.
import type { PlantedFault } from '../fault.ts'

export const BUDGET_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a session makes one call more than it may',
    file: 'src/proxy/budget.ts',
    find: 'limit !== null && used >= limit',
    replace: 'limit !== null && used > limit',
    suites: ['test/unit/proxy-budget.test.ts'],
  },
  {
    name: 'calls in flight overshoot a budget together',
    file: 'src/proxy/budget.ts',
    find: 'limit - state.sampledTokens - [...state.reserved.values()].reduce((sum, tokens) => sum + tokens, 0)',
    replace: 'limit - state.sampledTokens',
    suites: ['test/unit/proxy-budget.test.ts'],
  },
  {
    name: 'a call that waits for what another gives back waits for ever',
    file: 'src/proxy/spending.ts',
    find: '      for (const retry of [...waiting]) retry()\n',
    replace: '',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'an agent whose budget is used up is told so without end',
    file: 'src/proxy/budget.ts',
    find: 'if (state.farewells >= MAX_FAREWELLS)',
    replace: 'if (state.farewells < 0)',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'the end of a budget is generated, and recorded as a turn',
    file: 'src/proxy/door.ts',
    find: 'if (farewell !== null) return',
    replace: 'if (farewell?.ok === false) return',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'a pause eats the seconds of a session',
    file: 'src/proxy/door.ts',
    find: 'nowMs: () => host.pool.unpausedMs(),',
    replace: 'nowMs: () => kernel.clock.nowMs(),',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'a call may sample more than its session has left',
    file: 'src/proxy/generation.ts',
    find: 'if (most === Infinity ||',
    replace: 'if (most >= 0 ||',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'a session’s own context is not looked at while it is smaller than the model’s',
    file: 'src/proxy/generation.ts',
    find: 'isSessions || overBudget !== null, send)',
    replace: 'overBudget !== null, send)',
    suites: ['test/unit/proxy-farewell.test.ts'],
  },
  {
    name: 'the operator’s budget goes before the task’s',
    file: 'src/contract/session-budget.ts',
    find: 'own[name] ?? operators[name] ?? null',
    replace: 'operators[name] ?? own[name] ?? null',
    suites: ['test/unit/session-budget.test.ts'],
  },
  {
    name: 'a session that used up its budget counts as one that was done',
    file: 'src/actors/session/verdict.ts',
    find: "  if (budgetSpent !== null) return { outcome: 'budget_exhausted', error: budgetSpent }\n",
    replace: '',
    suites: ['test/model/session-state.test.ts'],
  },
  {
    name: 'agents that look for a sentence do not know that a conversation is too long',
    file: 'src/proxy/dialects/openai-failure.ts',
    find: "if (code !== 'context-overflow') return message",
    replace: "if (code !== 'not-recorded') return message",
    suites: ['test/unit/dialect-overflow.test.ts'],
  },
]
