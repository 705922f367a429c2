// How a server stands while nothing is asked of it: whether it sleeps, and which weights it has.
import { isObject, type JsonObject, parseJson } from '../json.ts'
import type { Engine } from './engine.ts'
import type { Connection } from './transport.ts'
import { versionText } from './weight-spans.ts'

export type Standing = {
  readonly isAsleep: boolean
  /** Null where it does not say. */
  readonly weightVersion: string | null
}

/** Whether it has routes by which it says so. */
export function saysHowItStands({ sleepPath, weightsPath }: Engine): boolean {
  return sleepPath !== null || weightsPath !== null
}

/** One that does not answer is taken to be awake: calls find out more. */
export async function readStanding(engine: Engine, connection: Connection, signal: AbortSignal): Promise<Standing> {
  const [sleep, weightVersion] = await Promise.all([
    read(engine.sleepPath, connection, signal),
    readWeightVersion(engine, connection, signal),
  ])
  return { isAsleep: sleep?.is_sleeping === true, weightVersion }
}

/** Null where it does not say. */
export async function readWeightVersion({ weightsPath }: Engine, connection: Connection, signal: AbortSignal): Promise<string | null> {
  return versionText((await read(weightsPath, connection, signal))?.weight_version)
}

async function read(path: string | null, connection: Connection, signal: AbortSignal): Promise<JsonObject | null> {
  if (path === null) return null
  const reply = await connection.send({ method: 'GET', path, headers: {}, body: null }, signal)
  if (!reply.ok || reply.response.status !== 200) return null
  const parsed = parseJson(reply.response.body)
  return parsed.ok && isObject(parsed.value) ? parsed.value : null
}
