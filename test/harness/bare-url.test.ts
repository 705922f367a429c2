// The real agent CLIs without a preset: a command, and of the node nothing but the base URL and the key that every program's environment has.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { DialectName } from '../../src/contract/call.ts'
import { call } from './answers.ts'
import { noteBare } from './facts.ts'
import { openImage } from './image.ts'
import { accountFor } from './laws.ts'
import { type Bench, openBench } from './rollout.ts'
import { TEST_MS } from './suite.ts'
import { claudeHands, geminiHands, type Hands, opencodeHands, piHands, qwenHands, twoTurns } from './tasks.ts'

type Bare = {
  readonly harness: string
  /** What it is told besides the base URL and the key, and why. */
  readonly told: string
  readonly command: string
  readonly hands: Hands
  readonly dialect: DialectName
  /** The model that it asks for when nobody names one. */
  readonly model: RegExp
  /** Calls that are no part of the task. */
  readonly aux?: number
  /** Calls in which it asks for a longer answer than the engine has room for: the engine refuses, and is asked again for what it has. */
  readonly repeats?: number
}

/** With OpenAI's newest models in mind Codex offers one tool, which runs a program that calls the others. */
const codeModeHands: Hands = {
  ...piHands,
  shell: (cmd) => call('functions__exec', { input: `text(await tools.exec_command({ cmd: ${JSON.stringify(cmd)} }))` }),
}

/** Pi takes a base URL from a file alone. */
const withPiProvider = (provider: string, variable: string): string =>
  `mkdir -p ~/.pi/agent && printf '{"providers":{"${provider}":{"baseUrl":"%s"}}}' "$${variable}" >~/.pi/agent/models.json && pi -p --provider ${provider}`

const BARE: readonly Bare[] = [
  {
    harness: 'claude_code',
    told: 'nothing but which tool it may use without asking',
    command: 'claude -p --allowedTools Bash',
    hands: claudeHands,
    dialect: 'anthropic',
    model: /^claude-/,
    repeats: 2,
  },
  {
    harness: 'codex',
    told: 'where they stand, since it looks at neither OPENAI_BASE_URL nor OPENAI_API_KEY',
    command: `CODEX_API_KEY="$OPENAI_API_KEY" codex exec -c openai_base_url="$OPENAI_BASE_URL" --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -`,
    hands: codeModeHands,
    dialect: 'openai-responses',
    model: /^gpt-/,
  },
  {
    harness: 'pi',
    told: 'the base URL in a file, since it looks at no OPENAI_BASE_URL, and a model that it asks for over HTTP',
    command: `${withPiProvider('openai', 'OPENAI_BASE_URL')} --model gpt-5`,
    hands: piHands,
    dialect: 'openai-responses',
    model: /^gpt-5$/,
  },
  {
    harness: 'pi',
    told: 'the base URL in a file, since it looks at no ANTHROPIC_BASE_URL',
    command: withPiProvider('anthropic', 'ANTHROPIC_BASE_URL'),
    hands: piHands,
    dialect: 'anthropic',
    model: /^claude-/,
  },
  {
    harness: 'gemini_cli',
    told: 'in a file that its key is one, since it takes any base URL for a gateway of Google’s, which it refuses without a terminal',
    command: `mkdir -p ~/.gemini && echo '{"security":{"auth":{"selectedType":"gemini-api-key"}}}' >~/.gemini/settings.json && gemini --approval-mode yolo --skip-trust`,
    hands: geminiHands,
    dialect: 'google',
    model: /^gemini-/,
  },
  {
    harness: 'qwen_code',
    told: 'whose key is meant, since it finds those of three vendors',
    command: 'qwen --yolo --auth-type openai',
    hands: qwenHands,
    dialect: 'openai-chat',
    model: /^qwen/,
  },
  {
    harness: 'opencode',
    told: 'nothing but a model of the vendor that is meant; it asks a small one for a title first',
    command: 'opencode run --model openai/gpt-5',
    hands: opencodeHands,
    dialect: 'openai-responses',
    model: /^gpt-5(\.\d+-nano)?$/,
    aux: 1,
  },
  {
    harness: 'opencode',
    told: 'nothing at all; it asks a small model for a title first',
    command: 'opencode run',
    hands: opencodeHands,
    dialect: 'anthropic',
    model: /^claude-/,
    aux: 1,
  },
]

describe('without a preset', () => {
  let bench: Bench
  beforeAll(async () => {
    bench = await openBench()
  })
  afterAll(() => bench.close())

  it.each(BARE)(
    '$harness does a task on $dialect with the base URL and the key of its environment, told $told',
    async ({ harness, command, hands, dialect, model, aux = 0, repeats = 0 }) => {
      const image = await openImage(harness, {}, join(bench.out, '..', harness))
      const agent = { harness: 'shell', env: image.env, custom_shell: { command: `${command} <"$POLAR_INSTRUCTION_FILE"` } }
      const rollout = await bench.run(agent, twoTurns(hands, bench.out))
      expect(rollout.sessions.map(({ outcome, error }) => [outcome, error])).toEqual([['completed', null]])
      const breaks = aux === 0 ? {} : { aux }
      expect(accountFor(rollout, { chains: 1, breaks })).toEqual({ turns: 2, aux, retries: 0, repeats })
      expect(Object.keys(rollout.files)).toHaveLength(1)
      for (const { records, traces } of rollout.sessions) {
        expect(records.map((record) => [record.dialect, record.status, record.captureError])).toEqual(
          records.map(() => [dialect, 'ok', null]),
        )
        for (const { modelRequested } of records) expect(modelRequested).toMatch(model)
        const trained = traces.filter(({ loss_mask }) => loss_mask.includes(1))
        expect(trained.map(({ metadata }) => metadata.segment_role)).toEqual(['main'])
      }
      expect(await bench.leftovers()).toEqual([])
      noteBare(harness, dialect)
    },
    TEST_MS,
  )
})
