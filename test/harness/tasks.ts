// Two tasks for any CLI: a short one, and one of ten turns with edits. What differs is how a CLI's tools are called.
import { join } from 'node:path'
import { call, type SampledCall, type Script, type SubScript } from './answers.ts'

/** A CLI's own tools. */
export type Hands = {
  shell(command: string): SampledCall
  /** The same with a number that JavaScript would print otherwise. */
  patientShell(command: string): SampledCall
  write(path: string, content: string): SampledCall
  read(path: string): SampledCall
  edit(path: string, before: string, after: string): SampledCall
}

/** Where a command puts what is to be looked at: under the sandbox's own name. Some CLIs refuse `$(...)`, but none refuses `${...}`. */
const OWN = '"$OUT"'
const withOut = (out: string, command: string): string => `BOX="\${PWD%/*}"; OUT='${out}'/"\${BOX##*/}"; mkdir -p ${OWN}; ${command}`

export function twoTurns(hands: Hands, out: string): Script {
  return [
    () => ({
      think: 'A file is asked for.',
      text: 'I will create it.',
      calls: [hands.shell(withOut(out, `echo "hello from $PWD" > hello.txt && cp hello.txt ${OWN} && cat hello.txt`))],
    }),
    (last) => ({ think: 'That was all.', text: `The file is there: ${/sbx-[0-9a-f]{16}/.exec(last)?.[0]}` }),
  ]
}

const ODD = 'say "hi"\n\ttab, \\back\\slash, é 😀 and </think> no <b>tag</b>\n'

export function tenTurns(hands: Hands, out: string): Script {
  return [
    () => ({ think: '  First a list.  ', text: '  I begin.', calls: [hands.shell("printf 'one\\ntwo\\nthree\\n' > a.txt")] }),
    () => ({ think: 'Two looks at once.', calls: [hands.shell('cat a.txt'), hands.patientShell('ls -1')] }),
    () => ({ text: 'Now a file with odd characters:', calls: [hands.write('b.txt', ODD)] }),
    () => ({ think: 'Is it there?', text: 'Looking.', calls: [hands.shell('cat b.txt')] }),
    // The same words and the same call: only the reasoning tells these two turns apart.
    () => ({ think: 'I should look twice.', text: 'Looking.', calls: [hands.shell('cat b.txt')] }),
    () => ({ calls: [hands.read('a.txt')] }),
    () => ({ think: 'The second line is to be loud.', text: 'Editing.  ', calls: [hands.edit('a.txt', 'two', 'TWO "2"')] }),
    () => ({ think: 'What if a command fails?', calls: [hands.shell('echo "it failed" >&2; exit 3')] }),
    () => ({
      text: 'Both at once:\n\n- an edit\n- a copy',
      calls: [hands.shell(withOut(out, `cp b.txt ${OWN}`)), hands.patientShell(withOut(out, `cat a.txt > ${OWN}/a.txt`))],
    }),
    () => ({ think: 'Done, I think.', text: '  All is done.\n\nBoth files are there.  ' }),
  ]
}

export const TEN_TURN_FILES = { 'a.txt': 'one\nTWO "2"\nthree\n', 'b.txt': ODD } as const

/** A task whose MCP server writes a note into the output folder. */
export function mcpServer(out: string): Readonly<Record<string, unknown>> {
  const args = [join(import.meta.dirname, 'fixtures/notes-server.ts'), out]
  return { name: 'notes', transport: 'stdio', command: process.execPath, args, env: { NOTE_NAME: 'é "1"' } }
}

const NOTE = 'a  note, é\n'
export const NOTE_FILES = { 'note-é "1".txt': NOTE } as const

/** A CLI may put variables in such places of its settings. */
export const DOLLARS = `$HOME \${SESSION_ID} \\$PATH`

/** `tool` is the name under which the server's tool is offered. */
export function noteTask(tool: string): Script {
  return [
    () => ({ think: 'There is a tool for notes.', text: 'Writing.', calls: [call(tool, { text: NOTE })] }),
    (last) => ({ text: last.includes('The note is written.') ? 'Written.' : 'It did not work.' }),
  ]
}

const SUB_TASK = 'SUB-TASK: look around'

/** Two turns of the parent around a sub-agent of three. `spawn` and `wait` are the parent's calls; without a `wait` the first one waits. */
export function subAgentTask(hands: Hands, spawn: (task: string) => SampledCall, wait: ((last: string) => SampledCall) | null): Script {
  return [
    () => ({ text: 'I send somebody.', calls: [spawn(SUB_TASK)] }),
    ...(wait === null ? [] : [(last: string) => ({ text: 'Waiting.', calls: [wait(last)] })]),
    () => ({ think: 'It came back.', calls: [hands.shell('echo parent')] }),
    () => ({ text: 'Somebody has looked.' }),
  ]
}

export const subAgent = (hands: Hands): SubScript => ({
  when: SUB_TASK,
  script: [
    () => ({ think: 'Looking.', text: 'I look.', calls: [hands.shell('echo one')] }),
    () => ({ think: 'Once more.', calls: [hands.shell('echo two'), hands.shell('echo three')] }),
    () => ({ text: 'There is nothing.' }),
  ],
})

export const piHands: Hands = {
  shell: (command) => call('bash', { command }),
  patientShell: (command) => ({ name: 'bash', input: `{"timeout": 30.0, "command": ${JSON.stringify(command)}}` }),
  write: (path, content) => call('write', { path, content }),
  read: (path) => call('read', { path }),
  edit: (path, before, after) => call('edit', { path, edits: [{ oldText: before, newText: after }] }),
}

export const claudeHands: Hands = {
  shell: (command) => call('Bash', { command, description: 'Does what is to be done' }),
  patientShell: (command) => ({ name: 'Bash', input: `{"timeout": 30000.0, "command": ${JSON.stringify(command)}}` }),
  write: (path, content) => call('Write', { file_path: path, content }),
  read: (path) => call('Read', { file_path: path }),
  edit: (path, before, after) => call('Edit', { file_path: path, old_string: before, new_string: after }),
}

/** With printf a shell writes any text. */
const printed = (path: string, content: string): string => `printf '%s' '${content.replaceAll("'", "'\\''")}' > ${path}`

/** `--bare` has no tool that writes a file. */
export const bareClaudeHands: Hands = { ...claudeHands, write: (path, content) => claudeHands.shell(printed(path, content)) }

/** Without a catalogue Codex edits by shell alone. */
export const plainCodexHands: Hands = {
  shell: (cmd) => call('exec_command', { cmd }),
  patientShell: (cmd) => ({ name: 'exec_command', input: `{"yield_time_ms": 10000, "cmd": ${JSON.stringify(cmd)}}` }),
  write: (path, content) => plainCodexHands.shell(printed(path, content)),
  read: (path) => plainCodexHands.shell(`cat ${path}`),
  edit: (path, before, after) => plainCodexHands.shell(`sed -i 's/${before}/${after}/' ${path}`),
}

/** With one it has the freeform tool, whose input is no JSON: the engine is offered it with one text. */
export const codexHands: Hands = {
  ...plainCodexHands,
  write: (path, content) =>
    patch(
      `*** Add File: ${path}`,
      content
        .replace(/\n$/, '')
        .split('\n')
        .map((line) => `+${line}`),
    ),
  edit: (path, before, after) => patch(`*** Update File: ${path}`, ['@@', `-${before}`, `+${after}`]),
}

function patch(head: string, lines: readonly string[]): SampledCall {
  return call('apply_patch', { input: ['*** Begin Patch', head, ...lines, '*** End Patch'].join('\n') })
}

export const geminiHands: Hands = {
  shell: (command) => call('run_shell_command', { command, description: 'Does what is to be done' }),
  patientShell: (command) => ({ name: 'run_shell_command', input: `{"delay_ms": 200.0, "command": ${JSON.stringify(command)}}` }),
  write: (path, content) => call('write_file', { file_path: path, content }),
  read: (path) => call('read_file', { file_path: path }),
  edit: (path, before, after) => call('replace', { file_path: path, instruction: 'Edit', old_string: before, new_string: after }),
}

/** Qwen Code takes absolute paths only, and a script does not know where its sandbox is. */
const absolute = (path: string): string => `/proc/self/cwd/${path}`

export const qwenHands: Hands = {
  shell: (command) => call('run_shell_command', { command, is_background: false }),
  patientShell: (command) => ({ name: 'run_shell_command', input: `{"timeout": 30000.0, "command": ${JSON.stringify(command)}}` }),
  write: (path, content) => call('write_file', { file_path: absolute(path), content }),
  read: (path) => call('read_file', { file_path: absolute(path) }),
  edit: (path, before, after) => call('edit', { file_path: absolute(path), old_string: before, new_string: after }),
}

/** Its bare mode has no tool that writes a file. */
export const bareQwenHands: Hands = { ...qwenHands, write: (path, content) => qwenHands.shell(printed(path, content)) }

export const opencodeHands: Hands = {
  shell: (command) => call('bash', { command }),
  patientShell: (command) => ({ name: 'bash', input: `{"timeout": 30000.0, "command": ${JSON.stringify(command)}}` }),
  write: (path, content) => call('write', { filePath: path, content }),
  read: (path) => call('read', { filePath: path }),
  edit: (path, before, after) => call('edit', { filePath: path, oldString: before, newString: after }),
}
