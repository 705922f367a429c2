// A simulated agent: a conversation over its gateway's boundary, with the manners and the misfortunes of real agent CLIs.
import type { Random, Scheduler } from '../../../src/kernel/clock.ts'
import type { Boundary } from '../../../src/proxy/boundary.ts'
import type { Command, ProcessExit } from '../../../src/runtime/runtime.ts'
import { openFakeSink } from '../../lib/proxy-fixture.ts'
import { isFarewell } from './budgets.ts'
import { type ChatMessage, ownerMark } from './model.ts'
import { sleep } from './time.ts'

/** An answer that the agent got to its last byte. */
type SeenAnswer = { readonly owner: string; readonly call: string; readonly content: string }

export type AgentOptions = {
  readonly scheduler: Scheduler
  readonly random: Random
  readonly boundaryAt: (port: number) => Boundary | undefined
  readonly maxTurns: number
  readonly maxThinkMs: number
  /** Chance of each kind of misfortune. */
  readonly faultRate: number
}

export type Agents = {
  /** `attempt` goes into every message, so that whatever shows up elsewhere is known by its owner. */
  run(command: Command, attempt: string, killed: AbortSignal): Promise<ProcessExit>
  readonly seen: readonly SeenAnswer[]
}

type Asked =
  | { readonly type: 'answer'; readonly call: string; readonly content: string }
  | { readonly type: 'refused'; readonly status: number }
  /** The connection ended before the answer did. */
  | { readonly type: 'cut' }

const TOOLS = [{ type: 'function', function: { name: 'run', parameters: { type: 'object', properties: {} } } }]
/** A CLI that loses its connection is back well within the gateway's linger. */
const BACK_WITHIN_MS = 5_000
const MAX_TRIES = 3

export function openAgents(options: AgentOptions): Agents {
  const { scheduler, random, faultRate } = options
  const seen: SeenAnswer[] = []
  const chance = (share: number): boolean => random.next() < share

  async function run(command: Command, attempt: string, killed: AbortSignal): Promise<ProcessExit> {
    // The process is gone when it was killed, and also when it ended: its connections end with it.
    const gone = new AbortController()
    killed.addEventListener('abort', () => gone.abort(), { once: true })
    try {
      return await live(command, attempt, gone.signal)
    } finally {
      gone.abort()
    }
  }

  async function live(command: Command, attempt: string, gone: AbortSignal): Promise<ProcessExit> {
    const url = new URL(command.env.OPENAI_BASE_URL ?? '')
    const key = command.env.OPENAI_API_KEY ?? ''
    const owner = ownerMark(command.env.SESSION_ID ?? '', attempt)

    async function ask(messages: readonly ChatMessage[], leaveAfterMs: number | null): Promise<Asked> {
      const sink = openFakeSink()
      const isStream = chance(0.5)
      const bytes = Buffer.from(JSON.stringify({ model: 'gpt-sim', messages, tools: TOOLS, stream: isStream, max_tokens: 64 }))
      const leave = (): void => sink.leave()
      gone.addEventListener('abort', leave, { once: true })
      const patience = leaveAfterMs === null ? null : scheduler.after(leaveAfterMs, leave)
      if (gone.aborted) leave()
      await options.boundaryAt(Number(url.port))?.handle(
        {
          method: 'POST',
          url: `${url.pathname}/chat/completions`,
          headers: { authorization: `Bearer ${key}` },
          body: async () => ({ ok: true, bytes }),
        },
        sink,
      )
      patience?.cancel()
      gone.removeEventListener('abort', leave)
      if (!sink.isEnded()) return { type: 'cut' }
      if (sink.status() !== 200) return { type: 'refused', status: sink.status() ?? 0 }
      return isStream ? readStream(sink.events()) : readPlain(sink.text())
    }

    /** Null when there is no answer to be had. */
    async function turn(messages: readonly ChatMessage[]): Promise<string | null> {
      for (let attempt = 1; attempt <= MAX_TRIES && !gone.aborted; attempt += 1) {
        const asked = await ask(messages, chance(faultRate) ? random.next() * 3_000 : null)
        if (asked.type === 'answer' && isFarewell(asked.content)) return null
        if (asked.type === 'answer') {
          seen.push({ owner, call: asked.call, content: asked.content })
          return asked.content
        }
        if (asked.type === 'refused' && asked.status < 500 && asked.status !== 429) return null
        await sleep(scheduler, random.next() * BACK_WITHIN_MS, gone)
      }
      return null
    }

    async function converse(name: string, turns: number): Promise<boolean> {
      const messages: ChatMessage[] = [{ role: 'system', content: `${owner} you are ${name}` }]
      for (let step = 1; step <= turns; step += 1) {
        messages.push({ role: 'user', content: `${owner} ${name} step ${step}` })
        const first = await turn(messages)
        // Some agents sample a turn again although they have its answer: that is a generation of its own.
        const content = first !== null && chance(0.1) ? await turn(messages) : first
        if (content === null) return false
        messages.push({ role: 'assistant', content })
        await sleep(scheduler, random.next() * options.maxThinkMs, gone)
        if (gone.aborted) return false
      }
      return true
    }

    if (chance(faultRate / 2)) return { type: 'exited', code: 0 }
    await sleep(scheduler, random.next() * options.maxThinkMs, gone)
    const turns = 1 + Math.floor(random.next() * options.maxTurns)
    const branches = [converse('main', turns), ...(chance(0.3) ? [converse('helper', 1 + Math.floor(random.next() * 2))] : [])]
    // A crash takes the process at some moment, whatever its conversations are doing.
    const crash = chance(faultRate) ? sleep(scheduler, random.next() * options.maxThinkMs * turns, gone).then(() => 'crash' as const) : null
    const ended = await Promise.race([Promise.all(branches), ...(crash === null ? [] : [crash])])
    if (gone.aborted) return { type: 'signalled', signal: 'SIGTERM' }
    if (ended === 'crash') return misfortune()
    if (chance(faultRate / 2)) await sleep(scheduler, Number.MAX_SAFE_INTEGER, gone)
    return gone.aborted ? { type: 'signalled', signal: 'SIGKILL' } : { type: 'exited', code: ended.every(Boolean) ? 0 : 1 }
  }

  function misfortune(): ProcessExit {
    switch (Math.floor(random.next() * 3)) {
      case 0:
        return { type: 'lost' }
      case 1:
        return { type: 'signalled', signal: 'SIGSEGV' }
      default:
        return { type: 'exited', code: 3 }
    }
  }

  return { run, seen }
}

function readPlain(text: string): Asked {
  const body = JSON.parse(text)
  return { type: 'answer', call: callOf(body.id), content: body.choices[0].message.content }
}

function readStream(events: readonly string[]): Asked {
  if (events.at(-1) !== '[DONE]') return { type: 'cut' }
  const chunks = events.slice(0, -1).map((event) => JSON.parse(event))
  const content = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('')
  return { type: 'answer', call: callOf(chunks[0].id), content }
}

const callOf = (completionId: string): string => completionId.replace(/^chatcmpl-/, 'msg_')
