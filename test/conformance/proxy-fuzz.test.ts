// A short run of the boundary's fuzz with a fixed seed: `npm run fuzz:proxy` is the long one.
import { expect, it } from 'vitest'
import { describeResult } from '../fuzz/report.ts'
import { run } from '../fuzz/run.ts'

const REQUESTS = 500
const SEED = 24_220

it(`serves ${REQUESTS} requests of all dialects, sound and broken, and the books agree`, { timeout: 120_000 }, async () => {
  const broken: string[] = []
  const report = await run({
    requests: REQUESTS,
    seed: SEED,
    onResult: (result) => {
      if (result.problem !== null) broken.push(describeResult(result))
    },
  })
  expect({ problems: report.problems, broken, smallest: [...report.smallest] }).toEqual({ problems: [], broken: [], smallest: [] })
  expect(report.results).toHaveLength(REQUESTS)
  // A run in which nothing was generated, refused or broken by an engine would prove nothing.
  const columns = Map.groupBy(report.results, ({ column }) => column)
  for (const column of ['answered', 'refused', 'engine fault', 'left'] as const) expect(columns.get(column)?.length).toBeGreaterThan(10)
  expect(report.generations).toBeGreaterThan(REQUESTS / 4)
})
