// How many builds are on the CPU pool, and which wait. The line is bounded by the sessions in POSTRUN: each asks once at a time.
import { join, type Line, leave, openLine } from '../../kernel/line.ts'
import type { BuilderCommand } from './protocol.ts'

export type BuilderState = Line<BuilderCommand>
export type BuilderMessage = BuilderCommand | { readonly type: 'task-settled' }

export const openBuilder: (maxRunning: number) => BuilderState = openLine

/** The second value is the command to run now, if any. */
export function step(state: BuilderState, message: BuilderMessage): readonly [BuilderState, BuilderCommand | null] {
  return message.type === 'task-settled' ? leave(state) : join(state, message)
}
