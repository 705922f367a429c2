// A way from an agent to the model port on which connections can be cut, or their answers lost.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Harness } from '../../src/harness/harness.ts'

/** How the name of a harness ends that takes it. */
export const DETOUR = '-by-detour'
const PORT = 'POLAR_TEST_DETOUR_PORT'

/** What an agent needs in its environment to go by another port. */
export const byPort = (port: number): Readonly<Record<string, string>> => ({ [PORT]: String(port) })

export type Detour = {
  /** What the agent needs in its environment to take it. */
  readonly env: Readonly<Record<string, string>>
  /** What was asked for, by method and route: without the session's prefix and the query. */
  routes(): readonly string[]
  /** Cuts what is open. */
  cut(): void
  /** The next answer is read to its end and thrown away, then its connection is cut: the sender cannot know. */
  loseNextAnswer(): void
  close(): Promise<void>
}

export async function openDetour(modelPort: number): Promise<Detour> {
  const open = new Set<Socket>()
  const routes: string[] = []
  let isLosing = false
  const server = createServer((agent) => {
    const node = connect(modelPort, '127.0.0.1')
    const end = (): void => {
      agent.destroy()
      node.destroy()
    }
    for (const socket of [agent, node]) {
      open.add(socket)
      socket.on('error', end).on('close', () => {
        open.delete(socket)
        end()
      })
    }
    agent.on('data', (chunk) => {
      // Clients write a request's head at the beginning of a piece.
      const [, method, path] = /^([A-Z]+) (\/\S*) HTTP\/1\.1\r\n/.exec(chunk.toString('latin1')) ?? []
      if (path !== undefined) routes.push(`${method} ${path.replace(/^\/s\/[^/?]+/, '').replace(/\?.*$/, '') || '/'}`)
      node.write(chunk)
    })
    node.on('data', (chunk) => {
      if (!isLosing) return void agent.write(chunk)
      // The last piece of a chunked body.
      if (!chunk.toString('latin1').endsWith('0\r\n\r\n')) return
      isLosing = false
      end()
    })
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const cut = (): void => {
    for (const socket of open) socket.destroy()
  }
  return {
    env: byPort((server.address() as AddressInfo).port), // a TCP server's address
    routes: () => routes,
    cut,
    loseNextAnswer() {
      isLosing = true
    },
    async close() {
      cut()
      await new Promise((closed) => server.close(closed))
    },
  }
}

/** The same harness, sent by the detour. */
export function withDetour(harness: Harness): Harness {
  return {
    ...harness,
    plan: (context) => {
      const modelUrl = new URL(context.modelUrl)
      modelUrl.port = context.agent.env[PORT] ?? modelUrl.port
      return harness.plan({ ...context, modelUrl: modelUrl.href })
    },
  }
}
