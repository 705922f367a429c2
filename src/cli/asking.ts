// One request to a node, one answer: said to a person or printed as JSON, and the code to end with.
import { type ControlClient, exitOf, type Reply } from './control-client.ts'
import { EXIT, type ExitCode, endWith } from './exit.ts'
import { openTarget, type TargetOptions } from './target.ts'

export type AskOptions = TargetOptions & { readonly json?: boolean }

/** What a node answers in the 200s has the shape `T` of its route. `say` gives the text with its last line end. */
export async function askNode<T>(
  options: AskOptions,
  send: (client: ControlClient) => Promise<Reply>,
  say: (body: T) => string,
): Promise<ExitCode> {
  const target = await openTarget(options)
  if (!target.ok) return endWith(EXIT.usage, target.problem)
  const reply = await send(target.client)
  if (reply.status < 200 || reply.status > 299) return endWith(exitOf(reply), reply.detail)
  process.stdout.write(options.json === true ? `${JSON.stringify(reply.body)}\n` : say(reply.body as T))
  return EXIT.ok
}
