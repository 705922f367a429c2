#!/usr/bin/env node
// The `polar` command. A published package runs its build; a checkout runs the sources, which Node executes as they are.
import { existsSync } from 'node:fs'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(
    `polar needs Node 22.19 or newer, this is ${process.versions.node}; inside the repository use: npx --no-install polar\n`,
  )
  // As for everything else that is wrong before a command runs.
  process.exit(2)
}
const built = new URL('../dist/cli/polar.js', import.meta.url)
await import(existsSync(built) ? built.href : new URL('../src/cli/polar.ts', import.meta.url).href)
