import { defineConfig } from 'vitest/config'

// Two worker processes: the suites start real threads, processes and engines, and the reference machine has two cores.
export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/lib/property-seed.ts'],
    exclude: ['**/node_modules/**', '.cache/**'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
  },
})
