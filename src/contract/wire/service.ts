// What the node says of its own words.
import { z } from 'zod'

export const schemaList = z
  .object({
    schema_version: z
      .string()
      .describe('`major.minor`: the minor rises with additions, the major when something that was promised is gone'),
    schemas: z.array(
      z.object({
        name: z.string(),
        direction: z.enum(['taken', 'given']).describe('taken: clients write it; given: this node does'),
        url: z.string().describe('of its JSON Schema, relative to this node'),
      }),
    ),
  })
  .meta({ id: 'SchemaList' })
