// A session's calls on real threads: they grow while it runs, and are all there when it has ended.
import { afterEach, expect, it, vi } from 'vitest'
import type { SessionView } from '../../src/actors/rollout-server/protocol.ts'
import type { SessionId } from '../../src/contract/ids.ts'
import { openCompletionsReader } from '../../src/http/kept-completions.ts'
import { chatAgent, openTestNode, type TestNode } from './fixtures/threaded-node.ts'

let bench: TestNode | undefined
afterEach(async () => {
  await bench?.close()
  bench = undefined
})

type Record = {
  readonly completion_id: string
  readonly request: { readonly messages: readonly { readonly role: string; readonly content: string }[] }
  readonly response: { readonly choices: readonly [{ readonly message: { readonly content: string } }] }
  readonly metadata: { readonly session_id: string; readonly polar_node: { readonly sequence: number } }
}

function openList({ node, readTask }: TestNode, name: string) {
  const read = openCompletionsReader({ ...node, render: node.renderCompletions })
  return async (session: SessionId): Promise<readonly Record[]> => {
    const parts: Uint8Array[] = []
    const readView = async () => {
      const { sessions } = await readTask(name)
      return { ok: true, value: sessions.find((view) => view.session === session) ?? null } as const
    }
    for await (const part of read({ session, only: null, wish: { offset: 0, limit: null }, readView })) parts.push(part)
    return JSON.parse(Buffer.concat(parts).toString()).completions
  }
}

it('they grow while the session runs, and the last list begins with every earlier one', async () => {
  bench = await openTestNode()
  const running = bench
  const list = openList(running, 'task')
  await running.submit('task', { agent: chatAgent(0, 5), callback_url: null })
  const [view] = (await running.readTask('task')).sessions
  const { session } = view!
  const seen: (readonly Record[])[] = []
  for (const least of [1, 3]) {
    const told = await vi.waitUntil(
      async () => {
        const records = await list(session)
        return records.length >= least ? records : null
      },
      { timeout: 60_000, interval: 20 },
    )
    seen.push(told)
  }
  await running.cancel('task')
  const hasEnded = ({ summary }: SessionView): boolean => summary !== null
  await vi.waitUntil(async () => (await running.readTask('task')).sessions.every(hasEnded), { timeout: 60_000, interval: 20 })

  const all = await list(session)
  for (const earlier of seen) expect(all.slice(0, earlier.length).map(idOf)).toEqual(earlier.map(idOf))
  expect(all.map(({ metadata }) => metadata.polar_node.sequence)).toEqual(all.map((_, at) => at))
  for (const [at, { request, response, metadata }] of all.entries()) {
    expect(metadata.session_id).toBe(session)
    expect(request.messages[0]).toEqual({ role: 'system', content: `agent of ${session}` })
    // Each call tells the answer of the one before it, until the agent begins anew.
    const said = all[at - 1]?.response.choices[0].message.content
    if (said !== undefined && request.messages.length > 2)
      expect(request.messages.at(-2)).toMatchObject({ role: 'assistant', content: said })
    expect(typeof response.choices[0].message.content).toBe('string')
  }
}, 120_000)

it('they are kept of a session whose builder had to be killed', async () => {
  bench = await openTestNode({ budgets: { buildMs: 1_500 } })
  const running = bench
  await running.submit('task', { agent: chatAgent(2), builder: { strategy: 'endless' }, callback_url: null })
  await running.until(() => running.events.some((event) => event.type === 'task.completed'))
  const [view] = (await running.readTask('task')).sessions
  expect(view?.summary?.outcome).toBe('build_error')
  expect(await openList(running, 'task')(view!.session)).toHaveLength(2)
}, 120_000)

const idOf = ({ completion_id: id }: Record): string => id
