// An agent in a loop: it asks the model, runs the shell commands that the model calls for, and asks again until there is none.
import { spawnSync } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'

const { OPENAI_BASE_URL, OPENAI_API_KEY, AGENT_MODEL, AGENT_MAX_TURNS, AGENT_INSTRUCTION_FILE, AGENT_TRANSCRIPT } = process.env
const shell = { type: 'object', properties: { command: { type: 'string' } }, required: ['command'] }
const tools = [{ type: 'function', function: { name: 'shell', description: 'Runs a command and tells its output.', parameters: shell } }]
const messages = [{ role: 'user', content: readFileSync(AGENT_INSTRUCTION_FILE, 'utf8') }]

async function ask() {
  const reply = await fetch(`${OPENAI_BASE_URL}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${OPENAI_API_KEY}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: AGENT_MODEL, messages, tools }),
  })
  if (!reply.ok) throw new Error(`the model answered ${reply.status}: ${await reply.text()}`)
  return (await reply.json()).choices[0].message
}

function run({ function: { arguments: text } }) {
  const { stdout, stderr, status } = spawnSync('/bin/sh', ['-c', JSON.parse(text).command], { encoding: 'utf8' })
  return `${stdout}${stderr}exit code ${status}`
}

try {
  for (let turn = 1; turn <= Number(AGENT_MAX_TURNS); turn += 1) {
    const message = await ask()
    messages.push(message)
    const calls = message.tool_calls ?? []
    for (const call of calls) messages.push({ role: 'tool', tool_call_id: call.id, content: run(call) })
    if (calls.length === 0) break
    if (turn === Number(AGENT_MAX_TURNS)) throw new Error(`not done after ${turn} turns`)
  }
  console.log('done')
} catch (error) {
  console.log(error.message.replaceAll('\n', ' '))
} finally {
  for (const message of messages) appendFileSync(AGENT_TRANSCRIPT, `${JSON.stringify(message)}\n`)
}
