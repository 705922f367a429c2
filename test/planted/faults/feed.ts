// The feed of results, and deliveries that are driven again.
import type { PlantedFault } from '../fault.ts'

const LEDGER = ['test/unit/ledger-feed.test.ts']
const OUTBOX = ['test/unit/callback-redrive.test.ts']

export const FEED_FAULTS: readonly PlantedFault[] = [
  {
    name: 'news of an earlier attempt make the result of the next one final',
    file: 'src/actors/ledger/state.ts',
    find: 'if (row === undefined || row.attempt !== attempt || row.place !== null) return state',
    replace: 'if (row === undefined || row.place !== null) return state',
    suites: LEDGER,
  },
  {
    name: 'a result is final for readers although its session may be attempted again',
    file: 'src/actors/ledger/state.ts',
    find: 'return [trimLogs({ ...roomy, results, feed, bytes, completions, finishedLogs }), RECORDED]',
    replace: 'return [endSession(trimLogs({ ...roomy, results, feed, bytes, completions, finishedLogs }), session, attempt), RECORDED]',
    suites: ['test/sim/node-schedules.test.ts'],
    tests: 'from seed 0 to seed 24',
  },
  {
    name: 'a result that nobody told the ledger is final is in no feed',
    file: 'src/actors/ledger/state.ts',
    find: 'lookUp(so.results, session)?.attempt ?? 0), state)',
    replace: '0), state)',
    suites: LEDGER,
  },
  {
    name: 'a reader of the feed is not told what it missed',
    file: 'src/actors/ledger/feed-page.ts',
    find: 'const missed = startsOver || from < feed.lost',
    replace: 'const missed = startsOver',
    suites: LEDGER,
  },
  {
    name: 'a cursor of an earlier process is read as one of this',
    file: 'src/actors/ledger/feed-page.ts',
    find: '(after.ledger !== identity || after.sequence > feed.last)',
    replace: 'after.sequence > feed.last',
    suites: LEDGER,
  },
  {
    name: 'a callback is sent elsewhere while a try of it is under way',
    file: 'src/actors/callback/redrive.ts',
    find: "return [put(state, { ...delivery, redirect: to }), [{ type: 'abort',",
    replace: "return to !== delivery.url ? line(state, again) : [state, [{ type: 'abort',",
    suites: ['test/model/callback-redrive.test.ts'],
  },
  {
    name: 'a callback that was redirected goes where it went before',
    file: 'src/actors/callback/state.ts',
    find: 'addressed(delivery, redirect), tries: 0',
    replace: 'addressed(delivery, url), tries: 0',
    suites: OUTBOX,
  },
  {
    name: 'a redrive is acknowledged before the ledger keeps what it drives',
    file: 'src/actors/callback/redrive.ts',
    find: "const left = new Set(tasks.filter((task) => lookUp(next.deliveries, task)?.phase === 'telling'))",
    replace: 'const left = new Set<TaskId>()',
    suites: OUTBOX,
  },
  {
    name: 'the end of a rest that was cut short ends the next one',
    file: 'src/actors/callback/state.ts',
    find: 'if (delivery === undefined || delivery.stamp !== stamp) return [state, []]',
    replace: 'if (delivery === undefined) return [state, []]',
    suites: ['test/model/callback-redrive.test.ts', ...OUTBOX],
  },
  {
    name: 'a redrive may name an address that a submit may not',
    file: 'src/actors/callback/redrive.ts',
    find: 'const forbidden = url === null ? null : checkTarget(url)',
    replace: 'const forbidden: string | null = null',
    suites: OUTBOX,
  },
  {
    name: 'a task whose callback is driven again stays as it was for its readers',
    file: 'src/actors/rollout-server/endings.ts',
    find: "putTask(turn.state, { ...task, delivery: 'pending' })",
    replace: 'putTask(turn.state, task)',
    suites: ['test/conformance/control-callbacks.test.ts'],
  },
  {
    name: 'a reader of the feed that left keeps its place',
    file: 'src/http/routes/feed.ts',
    find: "    reply.raw.on('close', waiter.leave)\n",
    replace: '',
    suites: ['test/conformance/control-feed.test.ts'],
  },
  {
    name: 'an id that a node gives becomes any path that is saved to',
    file: 'src/cli/results.ts',
    find: 'if (!isIdText(task) || !isIdText(session)) {',
    replace: 'if (task === session) {',
    suites: ['test/e2e/results-command.test.ts'],
    tests: 'would leave the folder',
  },
  {
    name: 'a redrive in the last try of a delivery leaves it that one',
    file: 'src/actors/callback/redrive.ts',
    find: 'put(state, { ...delivery, tries: 1 })',
    replace: 'put(state, { ...delivery, tries: delivery.tries })',
    suites: OUTBOX,
  },
]
