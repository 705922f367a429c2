import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { agentSpecSchema } from '../../src/contract/task.ts'
import { type Ailment, DRIFT_NAMES, type Remedy, remediesFor } from '../../src/doctor/remedies.ts'
import { loadHarnesses } from '../../src/harness/registry.ts'
import { checkBuilder } from '../../src/trajectory/config.ts'
import type { DriftClass } from '../../src/trajectory/drift.ts'

const CLASSES = Object.keys(DRIFT_NAMES) as readonly DriftClass[]
const HARNESSES = ['pi', 'claude_code', 'codex', 'shell']
const known = await loadHarnesses({})

/** Every ailment whose remedies differ. */
const AILMENTS: readonly Ailment[] = CLASSES.flatMap((driftClass) =>
  HARNESSES.flatMap((harness) =>
    (['vllm', 'sglang', 'sglang-native', 'llamacpp', 'embedded'] as const).flatMap((engine) =>
      ['the chat template leaves out reasoning', "the request leaves out the turn's reasoning"].flatMap((reason) =>
        [null, '<think>\n\n</think>\n\n', '<think>\nhm'].map((lostText) => ({ class: driftClass, reason, harness, engine, lostText })),
      ),
    ),
  ),
)
const NAMED: readonly (readonly [string, Remedy])[] = [
  ...new Map(
    AILMENTS.flatMap((ailment) =>
      remediesFor(ailment).map((remedy) => [JSON.stringify([ailment.harness, remedy]), [ailment.harness, remedy] as const]),
    ),
  ).values(),
]
const namesOf = (where: Remedy['where']) => [
  ...new Set(
    NAMED.flatMap(([harness, remedy]) =>
      remedy.where === where ? [JSON.stringify([where === 'agent.settings' ? harness : 'any', remedy.key])] : [],
    ),
  ),
]

const SOUND_VALUES: Readonly<Record<string, unknown>> = {
  'models.*.max_output_tokens': { default: 1024, limit: 4096 },
  'models.*.thinking': true,
  'stream.linger_seconds': 60,
  'embedded.max_model_len': 4096,
}

describe('every setting that is named exists', () => {
  it.each(namesOf('agent.settings'))('in the harness it is named for: %s', (named) => {
    const [harness, key]: [string, string] = JSON.parse(named)
    // A value of no kind is refused, but not for its name.
    const refusal = known.check(agentSpecSchema.parse({ harness, settings: { [key]: null } }))
    expect(refusal).toContain(`agent.settings.${key}`)
    expect(refusal).not.toContain('unknown key')
  })

  it.each(namesOf('polar.yaml'))('in polar.yaml: %s', (named) => {
    const [, key]: [string, string] = JSON.parse(named)
    const path = ['polar_node', ...key.split('.').map((part) => (part === '*' ? 'my-policy' : part))]
    const fileWith = (value: unknown) => JSON.stringify(path.toReversed().reduce((inner, part) => ({ [part]: inner }), value))
    // A key of no meaning is refused whatever its value, and these are refused for their values alone.
    expect([key, parseConfig(fileWith(SOUND_VALUES[key]), null, '/').ok]).toEqual([key, true])
    expect([key, parseConfig(fileWith('nonsense'), null, '/').ok]).toEqual([key, false])
  })

  it.each(namesOf('builder.config'))('in the builder: %s', (named) => {
    const [, key]: [string, string] = JSON.parse(named)
    const refusal = checkBuilder({ strategy: 'prefix_merging', config: { [key]: 'nonsense' } }, [])
    expect(refusal).toContain(`builder.config.${key}`)
    expect(refusal).not.toContain('unknown key')
  })
})

describe('what is prescribed', () => {
  const keysFor = (driftClass: DriftClass, harness: string, more: Partial<Ailment> = {}) =>
    remediesFor({
      class: driftClass,
      reason: 'the chat template leaves out reasoning',
      harness,
      engine: 'vllm',
      lostText: null,
      ...more,
    }).map(({ where, key }) => `${where} ${key}`)

  it.each<[DriftClass, string, readonly string[]]>([
    ['D1', 'pi', ['builder.config splice']],
    ['D2', 'pi', ['engine --chat-template', 'builder.config splice']],
    ['D2', 'codex', ['engine --chat-template', 'agent.settings multi_agent', 'builder.config splice']],
    ['D4', 'shell', ['agent null', 'builder.config splice']],
    ['D5', 'pi', ['builder.config splice']],
    ['D7', 'pi', ['agent.settings max_tokens', 'polar.yaml models.*.max_output_tokens', 'engine --max-model-len']],
    ['D7', 'codex', ['polar.yaml models.*.max_output_tokens', 'engine --max-model-len']],
    ['D8', 'claude_code', ['agent.settings system_prompt', 'agent.settings bare']],
    ['D9', 'codex', ['agent.settings auto_compact_token_limit', 'agent.settings context_window', 'engine --max-model-len']],
    ['D11', 'claude_code', ['agent.settings experimental_betas']],
    ['D12', 'pi', ['polar.yaml stream.linger_seconds']],
    ['D17', 'pi', ['engine --chat-template']],
    ['unclassified', 'pi', []],
  ])('for %s of %s', (driftClass, harness, keys) => expect(keysFor(driftClass, harness)).toEqual(keys))

  it('asks for a program’s own care only where the request itself lacks the reasoning', () => {
    const reason = "the request leaves out the turn's reasoning"
    expect(keysFor('D2', 'shell', { reason })).toEqual(['agent null', 'builder.config splice'])
  })

  it.each(['D8', 'D9', 'D11', 'D12', 'D17'] as const)('never names splice for %s, which it does not bridge', (driftClass) => {
    const keys = AILMENTS.filter((ailment) => ailment.class === driftClass).flatMap((ailment) => remediesFor(ailment).map(({ key }) => key))
    expect(keys).not.toContain('splice')
  })

  it.each([
    ['vllm', '--chat-template'],
    ['sglang', '--chat-template'],
    ['llamacpp', '--chat-template-file'],
    ['embedded', 'tokenizer.chat_template'],
  ] as const)('names the template option of %s', (engine, option) => {
    expect(keysFor('D17', 'pi', { engine })).toEqual([`engine ${option}`])
  })

  it('has a name for every class, and one remedy for each whose cause is known', () => {
    for (const driftClass of CLASSES) {
      const remedies = AILMENTS.filter((ailment) => ailment.class === driftClass).flatMap(remediesFor)
      expect([driftClass, remedies.length > 0]).toEqual([driftClass, driftClass !== 'unclassified'])
    }
  })
})
