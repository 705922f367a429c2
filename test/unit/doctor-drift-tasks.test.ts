import { describe, expect, it } from 'vitest'
import { taskRequestSchema } from '../../src/contract/task.ts'
import { type DriftTask, OWN_TASKS, readTasks, requestFor } from '../../src/doctor/drift-tasks.ts'
import { chooseHarnesses } from '../../src/doctor/harness-choice.ts'
import type { HarnessContext } from '../../src/harness/harness.ts'
import { loadHarnesses } from '../../src/harness/registry.ts'

const TASK = { task_id: 'mine', instruction: 'do it', runtime: { backend: 'local' } }

describe('a file of tasks', () => {
  it.each([
    ['a list without any', [], 'tasks.json: holds no task'],
    ['a text', 'do it', 'tasks.json: task: must be an object, a TaskRequest as it is submitted'],
    ['one without an instruction', { ...TASK, instruction: undefined }, 'tasks.json: task.instruction: is required'],
    ['a misfit in the second', [TASK, { ...TASK, task_id: 'b', timeout_seconds: -1 }], 'tasks.json: [1].timeout_seconds: '],
    ['an agent of two kinds', { ...TASK, agent: { harness: 'pi', import_path: 'x' } }, 'tasks.json: task.agent.harness: exactly one'],
    ['two of one name', [TASK, TASK], "tasks.json: [1].task_id: there is another task 'mine'"],
  ])('is refused by file and field: %s', (_, value, problem) => {
    const read = readTasks('tasks.json', value)
    expect(read.ok ? '' : read.problem).toContain(problem)
  })

  it('may leave out what the doctor knows itself', () => {
    expect(readTasks('f', [{ instruction: 'a' }, { ...TASK, agent: { harness: 'pi', settings: { tools: ['bash'] } } }])).toMatchObject({
      ok: true,
      tasks: [
        { name: 'task-1', harness: null, request: { runtime: { backend: 'local' } } },
        { name: 'mine', harness: 'pi' },
      ],
    })
  })
})

describe('what is submitted', () => {
  const task: DriftTask = {
    name: 'mine',
    harness: 'pi',
    request: {
      ...TASK,
      callback_url: 'http://trainer',
      builder: { strategy: 'per_request' },
      agent: { harness: 'pi', settings: { max_tokens: 9 } },
    },
  }

  it('is merged strictly, graded by its end alone, and told to nobody', () => {
    const request = requestFor(task, 'pi', 'm', 3)
    expect(request).toMatchObject({
      task_id: 'drift-pi-mine',
      num_samples: 3,
      builder: { strategy: 'prefix_merging', config: {} },
      evaluator: { strategy: 'session_completed' },
      agent: { harness: 'pi', model_name: 'm', settings: { max_tokens: 9 } },
    })
    expect(request).not.toHaveProperty('callback_url')
  })

  it('gives another harness none of the settings', () => {
    expect(requestFor(task, 'codex', null, 1).agent).toEqual({ harness: 'codex' })
  })

  it('is a valid request for every task of the doctor’s own', () => {
    for (const own of OWN_TASKS) expect(taskRequestSchema.safeParse(requestFor(own, 'claude_code', 'm', 1)).success).toBe(true)
  })
})

describe('the harnesses that are looked at', async () => {
  const known = await loadHarnesses({})
  const everywhere = (name: string) => ({ version: '1.2.3', folder: `/agents/${name}` })
  const nowhere = () => null
  const ofPi = { name: 'mine', harness: 'pi', request: { ...TASK, agent: { harness: 'pi' } } }
  const ofCodex = { name: 'other', harness: 'codex', request: { ...TASK, agent: { harness: 'codex' } } }
  const ofAny = { name: 'any', harness: null, request: TASK }
  const ofShell = { name: 'own', harness: 'shell', request: { ...TASK, agent: { harness: 'shell', custom_shell: { command: 'true' } } } }

  it.each<
    [string, readonly string[] | null, readonly DriftTask[], HarnessContext['installedAgent'], Readonly<Record<string, readonly string[]>>]
  >([
    [
      'those asked for, each with every task',
      ['codex', 'pi', 'pi'],
      [ofPi, ofAny],
      everywhere,
      { codex: ['mine', 'any'], pi: ['mine', 'any'] },
    ],
    [
      'those of the tasks, each with its own and with those of nobody',
      null,
      [ofPi, ofCodex, ofAny],
      everywhere,
      { pi: ['mine', 'any'], codex: ['other', 'any'] },
    ],
    ['a program of the task’s own', null, [ofShell], nowhere, { shell: ['own'] }],
    [
      'every CLI that is installed',
      null,
      [ofAny],
      everywhere,
      { pi: ['any'], codex: ['any'], claude_code: ['any'], gemini_cli: ['any'], qwen_code: ['any'], opencode: ['any'] },
    ],
    ['the one that is installed', null, [ofAny], (name: string) => (name === 'codex' ? everywhere(name) : null), { codex: ['any'] }],
  ])('%s', (_, asked, tasks, folder, expected) => {
    const choice = chooseHarnesses(asked, tasks, known, folder)
    expect(choice.ok ? Object.fromEntries(choice.looks.map((look) => [look.harness, look.tasks.map(({ name }) => name)])) : choice).toEqual(
      expected,
    )
  })

  it.each<[string, readonly string[] | null, readonly DriftTask[], HarnessContext['installedAgent'], string]>([
    ['an unknown one', ['fly'], OWN_TASKS, everywhere, "agent.harness 'fly' is not known on this node; known: 'shell', 'pi'"],
    ['one that is not installed', ['pi'], OWN_TASKS, nowhere, 'scripts/agents.ts pi'],
    ['none installed', null, OWN_TASKS, nowhere, 'scripts/agents.ts claude-code'],
    ['no name', [], OWN_TASKS, everywhere, '--harness: names none'],
    [
      'a setting that its task misspells',
      null,
      [{ ...ofPi, request: { ...TASK, agent: { harness: 'pi', settings: { max_token: 1 } } } }],
      everywhere,
      'task mine: agent.settings.max_token: unknown key',
    ],
  ])('are refused in the user’s terms: %s', (_, asked, tasks, folder, problem) => {
    const choice = chooseHarnesses(asked, tasks, known, folder)
    expect(choice.ok ? '' : choice.problem).toContain(problem)
  })
})
