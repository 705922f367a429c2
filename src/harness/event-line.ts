// One line of an agent CLI's output, read as the event that it may be.
import type { z } from 'zod'

/** Null for a line that is none: the first one of a tail is cut off at its front, and programs print what they like. */
export function readEvent<T>(schema: z.ZodType<T>, line: string): T | null {
  try {
    return schema.safeParse(JSON.parse(line)).data ?? null
  } catch {
    return null
  }
}
