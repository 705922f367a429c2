// Clients that read slowly, or stop and go, on real sockets: an answer of many megabytes waits for them, and is kept for them.
import { connect, type Socket } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import type { Boundary, SessionDoor } from '../../src/proxy/boundary.ts'
import { type ModelPort, openModelPort } from '../../src/proxy/model-port.ts'
import { HELLO, openProxy, type ProxyFixture } from '../lib/proxy-fixture.ts'
import { readChunked } from '../retries/relay.ts'
import { accountOf } from '../retries/trained.ts'

/** Far more than the kernel keeps for a connection, on both sides together. */
const ANSWER = Array.from({ length: 2_000_000 }, (_, line) => `${line}\n`.padStart(10)).join('')

let proxy: ProxyFixture
let port: ModelPort
/** What the boundary wrote, and whether it wrote while it was to wait. */
let written: { bytes: number; isBlocked: boolean; hasPushed: boolean }

async function open(): Promise<SessionDoor> {
  proxy = openProxy()
  written = { bytes: 0, isBlocked: false, hasPushed: false }
  const watched: Boundary = {
    ...proxy.boundary,
    handle: (call, sink) =>
      proxy.boundary.handle(call, {
        ...sink,
        write(chunk) {
          written.hasPushed ||= written.isBlocked
          written.bytes += chunk.length
          const hasRoom = sink.write(chunk)
          written.isBlocked = !hasRoom
          return hasRoom
        },
        async drained() {
          await sink.drained()
          written.isBlocked = false
        },
      }),
  }
  port = await openModelPort({ host: '127.0.0.1', port: 0, boundary: watched })
  return proxy.openDoor()
}

afterEach(async () => {
  await port.close()
  await proxy.close()
})

/** A client that has asked and reads nothing yet, and whose answer the engine has given. */
async function askAndWait(door: SessionDoor): Promise<Socket> {
  const socket = await ask(door, true)
  await until(() => proxy.generations.length === 1)
  proxy.generations[0]?.answer({ message: { role: 'assistant', content: ANSWER } })
  await until(() => written.isBlocked)
  return socket
}

function ask({ basePath, key }: SessionDoor, stream: boolean): Promise<Socket> {
  const body = JSON.stringify({ ...HELLO, stream })
  const head = `POST ${basePath}/v1/chat/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer ${key}\r\nconnection: close\r\n`
  return new Promise((resolve) => {
    const socket = connect(port.port, '127.0.0.1', () => {
      socket.pause()
      socket.write(`${head}content-length: ${body.length}\r\n\r\n${body}`)
      resolve(socket)
    })
    socket.on('error', () => {})
  })
}

async function readToEnd(socket: Socket): Promise<readonly Buffer[]> {
  const pieces: Buffer[] = []
  let isOver = false
  socket.on('close', () => {
    isOver = true
  })
  socket.on('data', (piece: Buffer) => pieces.push(piece)).resume()
  await until(() => isOver)
  return pieces
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await proxy.settle()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

it('ST-08: a reader of single bytes is waited for, and has every frame once', async () => {
  const door = await open()
  const socket = await askAndWait(door)
  const pieces: Buffer[] = []
  for (let bytes = 0; bytes < 1_000; ) {
    const piece: Buffer | null = socket.read(1)
    if (piece !== null) pieces.push(piece)
    bytes += piece?.length ?? 0
    await proxy.settle()
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(written.bytes, 'the answer waits at the engine’s side of the socket').toBeLessThan(ANSWER.length)
  pieces.push(...(await readToEnd(socket)))
  expect(written.hasPushed, 'nothing is written before there is room').toBe(false)
  const frames = readChunked(Buffer.concat(pieces).toString())[1].split('\n\n')
  const deltas = frames.flatMap((frame) =>
    frame.startsWith('data: {') ? [JSON.parse(frame.slice('data: '.length)).choices[0]?.delta.content ?? ''] : [],
  )
  expect(deltas.join('') === ANSWER).toBe(true)
  expect(frames.filter((frame) => frame === 'data: [DONE]')).toHaveLength(1)
  expect((await door.seal()).calls).toMatchObject([{ status: 'ok', delivery: 'yes' }])
})

it('ST-08: a reader that stops and goes has its answer kept whole, is recorded as such, and gets it when it asks again', async () => {
  const door = await open()
  const socket = await askAndWait(door)
  socket.destroy()
  await until(() => proxy.records.at(-1)?.delivery === 'partial')
  expect(proxy.records.at(-1)).toMatchObject({ status: 'ok', captureError: null })
  const again = await ask(door, false)
  const answer = Buffer.concat(await readToEnd(again)).toString()
  const body = answer.slice(answer.indexOf('{'), answer.lastIndexOf('}') + 1)
  expect(JSON.parse(body).choices[0].message.content === ANSWER).toBe(true)
  expect(proxy.generations).toHaveLength(1)
  const sealed = await door.seal()
  expect(sealed.calls).toMatchObject([{ status: 'ok', delivery: 'yes', retryOf: null }])
  expect(accountOf(sealed)).toEqual({ trained: [0], untrained: [] })
})
