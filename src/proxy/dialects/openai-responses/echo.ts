// A sampled call as it comes back from a client that was told it in the form of its tool.
import { unreachable } from '../../../kernel/unreachable.ts'
import type { ToolCall } from '../../chat.ts'
import { bareText, freeformArguments } from './freeform.ts'
import { localShellAction, shellAction, shellArguments } from './shell.ts'
import type { Face } from './tools.ts'

export function echoOf(call: ToolCall, faces: ReadonlyMap<string, Face>): ToolCall {
  const { name, arguments: text } = call.function
  const face = faces.get(name)
  const echoed = (argumentsText: string): ToolCall => ({ ...call, function: { name, arguments: argumentsText } })
  switch (face?.kind) {
    case undefined:
    case 'function':
    case 'tool-search':
      return call
    case 'custom':
      return echoed(freeformArguments(bareText(text)))
    case 'shell':
      return echoed(shellArguments(shellAction(text)))
    case 'local-shell':
      return echoed(shellArguments(localShellAction(text)))
    default:
      return unreachable(face)
  }
}
