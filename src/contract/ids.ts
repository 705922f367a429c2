// Names of things: branded strings, made in this file only.
export type TaskId = string & { readonly brand: 'TaskId' }
export type SessionId = string & { readonly brand: 'SessionId' }
export type CallId = string & { readonly brand: 'CallId' }
export type GatewayId = string & { readonly brand: 'GatewayId' }
export type ReplicaId = string & { readonly brand: 'ReplicaId' }
export type SandboxId = string & { readonly brand: 'SandboxId' }

const SOLE = 'session:'
export const ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/

/** True when a caller's string may serve as an id: it is then safe in a URL, a header and a file name. */
export function isIdText(text: string): boolean {
  return ID_PATTERN.test(text)
}

// The casts below are the only places where a string becomes a brand.
export const taskId = (text: string): TaskId => text as TaskId
/** Polar's form, `sk-polar-<uuid4>`. An id is public: it is never a credential. */
export const sessionId = (uuid: string): SessionId => `sk-polar-${uuid}` as SessionId
export const knownSessionId = (text: string): SessionId => text as SessionId
/** The key of a session by itself where tasks are kept: no task's own id has a colon. */
export const soleTaskId = (session: SessionId): TaskId => taskId(`${SOLE}${session}`)
/** What its owner calls what has this key: a task, or a session by itself. */
export const nameOfKey = (key: TaskId): string => (key.startsWith(SOLE) ? key.slice(SOLE.length) : key)
export const callId = (hex: string): CallId => `msg_${hex}` as CallId
/** What is unique of it, for the ids that each dialect makes of it. */
export const callHex = (call: CallId): string => call.slice('msg_'.length)
export const gatewayId = (text: string): GatewayId => text as GatewayId
export const replicaId = (text: string): ReplicaId => text as ReplicaId
export const sandboxId = (text: string): SandboxId => text as SandboxId
