// The routes that read and replace the weights: SGLang's, on every shape.
import { z } from 'zod'
import { bad, ok, type Route } from '../serve/route.ts'
import { fromHere } from '../serve/routes.ts'
import type { WeightDesk } from './weights.ts'

const updateSchema = z.looseObject({
  model_path: z.string().endsWith('.gguf', 'must be the path of a .gguf file on this host'),
  weight_version: z.string().min(1).nullish(),
  /** False lets running generations end before the new weights take over. */
  abort_all_requests: z.boolean().default(false),
})

const labelSchema = z.looseObject({ new_version: z.string().min(1) })

export function weightRoutes(desk: WeightDesk): Readonly<Record<string, Route>> {
  return {
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
    'POST /update_weight_version': ({ engine, body }) => {
      const parsed = labelSchema.safeParse(body)
      if (!parsed.success) return bad(engine, 'new_version must be a string', 'new_version')
      engine.setWeightVersion(parsed.data.new_version)
      return ok({ success: true, new_version: parsed.data.new_version })
    },
    'GET /weight_info': ({ engine }) => ok({ weight_version: engine.weightVersion() }),
    'GET /get_model_info': ({ engine }) => ok({ model_path: engine.model, is_generation: true, weight_version: engine.weightVersion() }),
  }
}

const refusal = (message: string) => ({ status: 400, json: { success: false, message } })
