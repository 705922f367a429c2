// The thread of the inference servers: a sound scripted engine, and one beside it for every way of being wrong.
import { type MessagePort, workerData } from 'node:worker_threads'
import * as comlink from 'comlink'
import nodeEndpoint from 'comlink/dist/esm/node-adapter.mjs'
import { openScriptedEngine, type ScriptedEngine } from '../../../src/engine/scripted/engine.ts'
import type { FaultName } from '../../../src/engine/scripted/faults.ts'
import type { EngineRequest } from '../../../src/engine/scripted/request-log.ts'
import { openFuzzAnswers } from './answers.ts'
import { ENGINE_FAULTS, type FuzzedEngine, MAX_MODEL_LEN, MODEL } from './settings.ts'

export type EngineUrls = { readonly sound: string; readonly faulty: Readonly<Record<string, string>> }

export type EnginesThread = {
  urls(): EngineUrls
  /** What was asked of any engine with this sampling seed, which is a session's own. */
  requestsOf(session: number): readonly EngineRequest[]
  close(): Promise<void>
}

export type EnginesBirth = { readonly seed: number; readonly engine: FuzzedEngine; readonly port: MessagePort }

// This module is started by `openNode` alone.
const { seed, engine: shape, port } = workerData as EnginesBirth
const answers = openFuzzAnswers(seed)
const settings = { answers, shape, seed, model: MODEL, maxModelLen: MAX_MODEL_LEN } as const

const sound = await openScriptedEngine(settings)
const faulty = new Map<FaultName, ScriptedEngine>()
for (const fault of ENGINE_FAULTS) faulty.set(fault, await openScriptedEngine({ ...settings, faults: [{ fault }] }))

function seedOf({ body }: EngineRequest): unknown {
  return typeof body === 'object' && body !== null && 'seed' in body ? body.seed : undefined
}

const thread: EnginesThread = {
  urls: () => ({ sound: sound.url, faulty: Object.fromEntries([...faulty].map(([name, { url }]) => [name, url])) }),
  requestsOf: (session) =>
    [sound, ...faulty.values()].flatMap((engine) => engine.requests().filter((request) => seedOf(request) === session)),
  async close() {
    await Promise.all([sound, ...faulty.values()].map((engine) => engine.close()))
  },
}

comlink.expose(thread, nodeEndpoint(port))
