// The tools of the Responses API: functions, freeform ones, namespaces, shells, and those that only a service runs.
import type { Dice } from '../dice.ts'
import { distinctNames, schema, text, words } from '../words.ts'
import type { Body, Refusable, Setting } from './grammar.ts'

export function toolFields(dice: Dice, { tier }: Setting, refusable: Refusable): Body {
  if (dice.chance(0.3)) return dice.chance(0.2) ? { tools: [], tool_choice: 'auto', parallel_tool_calls: true } : {}
  const names = distinctNames(dice, 1, 4)
  const constrained = (choice: unknown) => (tier === 'train' ? refusable.because('tool_choice', choice) : choice)
  const others = [freeform(dice), namespace(dice), { type: 'local_shell' }, { type: 'shell' }, ...SERVICE_TOOLS]
  return {
    tools: [...names.map((name) => functionTool(dice, name)), ...others.filter(() => dice.chance(0.12))],
    ...dice.maybe(0.5, 'tool_choice', () =>
      dice.weighted<() => unknown>([
        [8, () => 'auto'],
        [3, () => 'none'],
        [1, () => constrained('required')],
        [1, () => constrained({ type: 'function', name: names[0] })],
        [1, () => refusable.because('tool_choice', { type: 'allowed_tools', mode: 'auto', tools: [{ type: 'function', name: names[0] }] })],
        [1, () => refusable.because('tool_choice', { type: 'custom', name: 'apply_patch_freeform' })],
      ])(),
    ),
  }
}

function functionTool(dice: Dice, name: string): Body {
  return {
    type: 'function',
    name,
    ...dice.maybe(0.8, 'description', () => dice.pick([text(dice), null])),
    parameters: dice.chance(0.9) ? schema(dice) : null,
    ...dice.maybe(0.7, 'strict', () => dice.pick([true, false, null])),
  }
}

function freeform(dice: Dice): Body {
  return {
    type: 'custom',
    name: 'apply_patch_freeform',
    description: text(dice),
    ...dice.maybe(0.7, 'format', () => dice.pick<Body>([{ type: 'text' }, { type: 'grammar', syntax: 'lark', definition: 'start: "a"' }])),
  }
}

function namespace(dice: Dice): Body {
  return {
    type: 'namespace',
    name: 'multi_agent_v1',
    description: words(dice),
    tools: [
      { type: 'function', name: 'spawn_agent', description: words(dice), parameters: schema(dice), strict: false },
      { type: 'custom', name: 'exec', format: { type: 'text' } },
    ],
  }
}

const SERVICE_TOOLS: readonly Body[] = [
  { type: 'web_search', external_web_access: true },
  { type: 'web_search_preview' },
  { type: 'mcp', server_label: 'a', server_url: 'https://mcp.example', require_approval: 'never' },
  { type: 'tool_search', execution: 'client', parameters: { type: 'object', properties: {} } },
  { type: 'image_generation' },
  { type: 'code_interpreter', container: { type: 'auto' } },
  { type: 'file_search', vector_store_ids: ['vs_1'] },
  { type: 'computer_use_preview', display_width: 100, display_height: 100, environment: 'linux' },
  { type: 'apply_patch' },
]
