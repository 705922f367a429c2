// The body of every error of the control API: Polar's `{detail}`.
import { z } from 'zod'

const fieldProblem = z.object({
  loc: z.array(z.union([z.string(), z.number()])).describe('the way to the field, from `body` or `query` on'),
  msg: z.string(),
  type: z.string().describe("Pydantic's name of the kind of problem"),
})

export const errorMessage = z
  .object({
    detail: z.union([z.string(), z.array(fieldProblem)]).describe('a sentence; of a malformed request, every problem that it has'),
    error: z.string().optional().describe("the sentence again, where Polar's clients look for it under this name"),
  })
  .meta({ id: 'Error', description: 'Why a request was not served. The header `x-polar-error` holds the stable code.' })
