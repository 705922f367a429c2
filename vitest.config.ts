import { defineConfig } from 'vitest/config'

// Two worker processes: the suites start real threads, processes and engines, and the reference machine has two cores.
// The timeouts leave room for a machine with much else to do: no test waits for a time, and one that hangs ends all the same.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/lib/property-seed.ts'],
    exclude: ['**/node_modules/**', '.cache/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
})
