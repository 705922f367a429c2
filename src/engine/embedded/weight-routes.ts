// The routes that read and replace the weights: SGLang's, on every shape.
import { z } from 'zod'
import { ok, type Route } from '../serve/route.ts'
import { fromHere, VERSION_ROUTES } from '../serve/routes.ts'
import type { WeightDesk } from './weights.ts'

const updateSchema = z.looseObject({
  model_path: z.string().endsWith('.gguf', 'must be the path of a .gguf file on this host'),
  weight_version: z.string().min(1).nullish(),
  /** False lets running generations end before the new weights take over. */
  abort_all_requests: z.boolean().default(false),
})

export function weightRoutes(desk: WeightDesk): Readonly<Record<string, Route>> {
  return {
    ...VERSION_ROUTES,
    'POST /update_weights_from_disk': fromHere('weights can be loaded', async ({ body }) => {
      const parsed = updateSchema.safeParse(body)
      if (!parsed.success) {
        const issue = parsed.error.issues[0]
        return refusal(`${issue?.path.join('.') || 'body'}: ${issue?.message ?? 'is not valid'}`)
      }
      const { model_path: path, weight_version: version, abort_all_requests: aborts } = parsed.data
      const loaded = await desk.load(path, version ?? null, aborts ? 'abort' : 'wait')
      return loaded.ok ? ok({ success: true, message: `Serving ${path} as version ${loaded.version}.` }) : refusal(loaded.error)
    }),
  }
}

const refusal = (message: string) => ({ status: 400, json: { success: false, message } })
