// A port for a server that has to be told one before it listens.
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below what systems give to whoever asks for any port, so that nobody gets it by chance before it is used. */
const [FIRST, END] = [20_000, 32_000]

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, END)
    const server = createServer()
    // Rejects with the server's error.
    const isFree = await once(server.listen(port, '127.0.0.1'), 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    await new Promise((closed) => server.close(closed))
    return port
  }
}
