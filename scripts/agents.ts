// Installs the agent CLIs at their pinned versions: `node scripts/agents.ts pi codex`. Needs no network when they are there already.
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { copyFile, mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { agentPackage, installedAgent } from '../src/harness/agent-folder.ts'

const root = resolve(import.meta.dirname, '..')
const PACKAGES = join(root, 'agents')
const CACHE = join(root, '.cache', 'agents')
const INSTALL_TIMEOUT_MS = 10 * 60_000

/** Every agent there is a package for. */
export function knownAgents(): readonly string[] {
  return readdirSync(PACKAGES).filter((name) => agentPackage(PACKAGES, CACHE, name) !== null)
}

/** A harness is named with underscores, the package of its agent with dashes. */
export const agentOfHarness = (harness: string): string => harness.replaceAll('_', '-')

/** The folder of the installed agent; installs it first when it is missing. Safe to call from several processes at once. */
export async function ensureAgent(name: string): Promise<string> {
  const wanted = agentPackage(PACKAGES, CACHE, name)
  if (wanted === null) throw new Error(`no agent package '${name}' in ${PACKAGES}`)
  const installed = installedAgent(PACKAGES, CACHE, name)
  if (installed !== null) return installed.folder

  await mkdir(CACHE, { recursive: true })
  await removeAbandoned()
  const building = await mkdtemp(join(CACHE, `${UNFINISHED}${process.pid}-`))
  try {
    process.stderr.write(`agents: installing ${name} ${wanted.version} into ${wanted.folder}\n`)
    for (const file of ['package.json', 'package-lock.json']) await copyFile(join(PACKAGES, name, file), join(building, file))
    await installInto(building, `${name} ${wanted.version}`)
    await rename(building, wanted.folder).catch((error: unknown) => {
      // Another process was first: its folder is as good, and a folder that is not empty cannot be renamed over.
      if (installedAgent(PACKAGES, CACHE, name) === null) throw error
    })
    process.stderr.write(`agents: ${name} ${wanted.version} is ready\n`)
    return wanted.folder
  } finally {
    await rm(building, { recursive: true, force: true })
  }
}

const UNFINISHED = '.unfinished-'

/** What an installer that was killed left behind. */
async function removeAbandoned(): Promise<void> {
  for (const entry of await readdir(CACHE)) {
    if (!entry.startsWith(UNFINISHED)) continue
    const pid = Number(entry.slice(UNFINISHED.length).split('-')[0])
    if (!isRunning(pid)) await rm(join(CACHE, entry), { recursive: true, force: true })
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function installInto(folder: string, title: string): Promise<void> {
  return new Promise((settle, reject) => {
    const npm = spawn('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
      timeout: INSTALL_TIMEOUT_MS,
    })
    let complaint = ''
    npm.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-4000)
    })
    npm.once('error', (error) => reject(new Error(`could not run npm to install ${title}: ${error.message}`)))
    npm.once('close', (code, signal) => {
      if (code === 0) return settle()
      const how = code === null ? `was ended by ${signal}` : `failed with exit code ${code}`
      reject(new Error(`${title} is not in the cache and npm ci ${how}; without a network it cannot be installed:\n${complaint.trim()}`))
    })
  })
}

if (import.meta.main) {
  const names = process.argv.slice(2).map(agentOfHarness)
  const unknown = names.filter((name) => !knownAgents().includes(name))
  if (names.length === 0 || unknown.length > 0) {
    const problem = unknown.length === 0 ? '' : `agents: unknown: ${unknown.join(', ')}\n`
    process.stderr.write(`${problem}usage: node scripts/agents.ts <agent>...; known: ${knownAgents().join(', ')}\n`)
    process.exit(2)
  }
  for (const name of names) {
    try {
      process.stdout.write(`${await ensureAgent(name)}\n`)
    } catch (error) {
      process.stderr.write(`agents: ${error instanceof Error ? error.message : String(error)}\n`)
      process.exitCode = 1
    }
  }
}
