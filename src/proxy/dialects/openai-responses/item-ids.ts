// The ids of output items: each names the call that gave it, so that an item that comes back leads to its answer.

const KINDS = {
  reasoning: 'rs',
  message: 'msg',
  function_call: 'fc',
  custom_tool_call: 'ctc',
  local_shell_call: 'lsh',
  shell_call: 'sh',
  tool_search_call: 'tsc',
} as const

/** With its place in the output, which no other server's ids carry. */
const ITEM_ID = new RegExp(`^(?:${Object.values(KINDS).join('|')})_([0-9a-f]{32})_\\d+$`)
const RESPONSE_ID = /^resp_([0-9a-f]{32})$/

export function itemId(kind: keyof typeof KINDS, call: string, place: number): string {
  return `${KINDS[kind]}_${call}_${place}`
}

export function responseId(call: string): string {
  return `resp_${call}`
}

/** The call whose answer an item is; null for an item of somebody else. */
export function callOfItem(id: unknown): string | null {
  return typeof id === 'string' ? (ITEM_ID.exec(id)?.[1] ?? null) : null
}

/** The call that a response id names; null for an id of somebody else. */
export function callOfResponse(id: string): string | null {
  return RESPONSE_ID.exec(id)?.[1] ?? null
}
