// The input items of the Responses API: content parts, every kind of call with its output, and the items that only a service understands.
import type { Dice } from '../dice.ts'
import { argumentsText, hexId, imageUrl, PIXEL, text, textOrEmpty, words } from '../words.ts'
import { type Body, RARE, type Refusable } from './grammar.ts'

export function inputPart(dice: Dice, refusable: Refusable): Body {
  return dice.weighted<() => Body>([
    [12, () => ({ type: 'input_text', text: textOrEmpty(dice) })],
    [
      2,
      () => ({
        type: 'input_image',
        image_url: imageUrl(dice),
        ...dice.maybe(0.5, 'detail', () => dice.pick(['auto', 'low', 'high', 'original'])),
      }),
    ],
    [1, () => ({ type: 'text', text: text(dice) })],
    [
      RARE,
      () => refusable.because('input_file', { type: 'input_file', filename: 'a.pdf', file_data: `data:application/pdf;base64,${PIXEL}` }),
    ],
    [RARE, () => refusable.because('input_image_file', { type: 'input_image', file_id: 'file_1', detail: 'auto' })],
  ])()
}

/** A part that stands in the input as if it were an item. */
export function looseItem(dice: Dice, refusable: Refusable): Body {
  return inputPart(dice, refusable)
}

/** Output of a call of this kind; `mark` goes into its text. */
export function outputOf(dice: Dice, kind: string, callId: string, mark: string): Body {
  const said = `${textOrEmpty(dice)}${mark}`
  switch (kind) {
    case 'custom_tool_call':
      return { type: 'custom_tool_call_output', call_id: callId, output: dice.pick<unknown>([said, [{ type: 'input_text', text: said }]]) }
    case 'local_shell_call':
      return { type: 'local_shell_call_output', id: callId, call_id: callId, output: said }
    case 'shell_call':
      return {
        type: 'shell_call_output',
        call_id: callId,
        output: [{ stdout: said, stderr: '', outcome: { type: 'exit', exit_code: 0 } }],
        max_output_length: null,
      }
    case 'apply_patch_call':
      return { type: 'apply_patch_call_output', call_id: callId, status: 'completed', output: said }
    default:
      return {
        type: 'function_call_output',
        call_id: callId,
        ...dice.maybe(0.3, 'id', () => hexId(dice, 'fco_')),
        output: dice.pick<unknown>([said, [{ type: 'input_text', text: said }]]),
      }
  }
}

type CallItem = (dice: Dice, callId: string) => Body

const CALLS: { readonly [kind: string]: CallItem } = {
  function_call: (dice, callId) => ({
    type: 'function_call',
    call_id: callId,
    name: dice.pick(['read', 'bash', 'gone_tool']),
    arguments: argumentsText(dice),
    ...dice.maybe(0.6, 'id', () => hexId(dice, 'fc_')),
    ...dice.maybe(0.5, 'status', () => 'completed'),
    ...dice.maybe(0.1, 'namespace', () => 'agents'),
  }),
  custom_tool_call: (dice, callId) => ({
    type: 'custom_tool_call',
    call_id: callId,
    name: 'apply_patch',
    input: textOrEmpty(dice),
    ...dice.maybe(0.5, 'id', () => hexId(dice, 'ctc_')),
  }),
  local_shell_call: (dice, callId) => ({
    type: 'local_shell_call',
    id: hexId(dice, 'lsh_'),
    call_id: callId,
    status: 'completed',
    action: { type: 'exec', command: ['echo', words(dice)], env: {}, ...dice.maybe(0.3, 'timeout_ms', () => 1_000) },
  }),
  shell_call: (dice, callId) => ({
    type: 'shell_call',
    id: hexId(dice, 'sh_'),
    call_id: callId,
    status: 'completed',
    action: { commands: [`echo ${words(dice)}`], timeout_ms: null, max_output_length: 1_000 },
  }),
  apply_patch_call: (dice, callId) => ({
    type: 'apply_patch_call',
    id: hexId(dice, 'apc_'),
    call_id: callId,
    status: 'completed',
    operation: { type: 'create_file', path: 'a.txt', diff: text(dice) },
  }),
}

/** Some call with its output, or an item that no engine here can act on. */
export function callItems(dice: Dice, refusable: Refusable): readonly Body[] {
  if (dice.chance(0.25)) return serviceItems(dice, refusable)
  const kind = dice.weighted([
    [10, 'function_call'],
    [4, 'custom_tool_call'],
    [2, 'local_shell_call'],
    [2, 'shell_call'],
    [1, 'apply_patch_call'],
  ])
  const callId = hexId(dice, 'call_')
  const call = CALLS[kind]?.(dice, callId) ?? {}
  if (kind === 'function_call' && dice.chance(0.1)) {
    const output = [inputPart(dice, refusable), { type: 'input_image', image_url: imageUrl(dice) }]
    return [call, { type: 'function_call_output', call_id: callId, output }]
  }
  return [call, outputOf(dice, kind, callId, '')]
}

function serviceItems(dice: Dice, refusable: Refusable): readonly Body[] {
  const call = hexId(dice, 'call_')
  // A service that keeps nothing cannot do what these ask for.
  if (dice.chance(0.06)) return [refusable.because('kept-item', dice.pick(KEPT_ITEMS))]
  return dice.pick<readonly Body[]>([
    [{ type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'search', query: words(dice) } }],
    [{ type: 'file_search_call', id: 'fs_1', status: 'completed', queries: [words(dice)], results: null }],
    [{ type: 'code_interpreter_call', id: 'ci_1', status: 'completed', code: 'print(1)', container_id: 'c', outputs: null }],
    [{ type: 'image_generation_call', id: 'ig_1', status: 'completed', result: PIXEL }],
    [
      { type: 'computer_call', id: 'cu_1', call_id: call, status: 'completed', pending_safety_checks: [], action: { type: 'screenshot' } },
      { type: 'computer_call_output', call_id: call, output: { type: 'computer_screenshot', image_url: imageUrl(dice) } },
    ],
    [{ type: 'mcp_list_tools', id: 'mcpl_1', server_label: 'a', tools: [] }],
    [{ type: 'mcp_call', id: 'mcp_1', server_label: 'a', name: 'b', arguments: '{}', output: words(dice) }],
    [
      { type: 'mcp_approval_request', id: 'mcpr_1', server_label: 'a', name: 'b', arguments: '{}' },
      { type: 'mcp_approval_response', approval_request_id: 'mcpr_1', approve: true },
    ],
    [
      { type: 'tool_search_call', id: 'ts_1', call_id: call, status: 'completed', execution: 'client', arguments: { query: words(dice) } },
      { type: 'tool_search_output', call_id: call, status: 'completed', execution: 'client', tools: [] },
    ],
    [
      {
        type: 'additional_tools',
        role: 'developer',
        tools: [{ type: 'function', name: 'late_tool', parameters: { type: 'object', properties: {} } }],
      },
    ],
    [{ type: 'some_new_item', id: 'new_1', payload: { a: 1 } }],
  ])
}

const KEPT_ITEMS: readonly Body[] = [
  { type: 'compaction', id: 'cmp_1', encrypted_content: 'Zm9yZWlnbg==' },
  { type: 'compaction_trigger' },
  { type: 'item_reference', id: 'msg_earlier' },
]
