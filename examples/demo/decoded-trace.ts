// One trace as text, what was sampled told from what was not.
import type { Trace } from './listener.ts'

/** Sampled tokens stand in ⟦ ⟧ (and in colour): those have mask 1; everything else is context. */
export async function decodeTrace(trace: Trace, decode: (ids: readonly number[]) => Promise<string>, isColoured: boolean): Promise<string> {
  const [on, off] = isColoured ? ['\x1b[1;32m⟦', '⟧\x1b[0m'] : ['⟦', '⟧']
  let text = ''
  for (let start = 0; start < trace.response_ids.length; ) {
    const isTrained = trace.loss_mask[start] === 1
    let end = start
    while (end < trace.response_ids.length && (trace.loss_mask[end] === 1) === isTrained) end += 1
    const span = printable(await decode(trace.response_ids.slice(start, end)))
    text += isTrained ? on + span + off : span
    start = end
  }
  return text
}

/** By the engine: the vocabulary is its model's. */
export function engineDecoder(engineUrl: string): (ids: readonly number[]) => Promise<string> {
  return async (tokens) => {
    const response = await fetch(`${engineUrl}/detokenize`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ tokens, skip_special_tokens: false }),
    })
    if (!response.ok) throw new Error(`the engine does not decode: ${response.status} ${await response.text()}`)
    // The scripted engine answers as vLLM does, the node's own as SGLang.
    const { prompt, text } = (await response.json()) as { readonly prompt?: string; readonly text?: string }
    const decoded = prompt ?? text
    if (decoded === undefined) throw new Error('the engine decodes to no text')
    return decoded
  }
}

/** What an agent wrote must not steer the terminal it is shown on. */
function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]/gu, '\u{fffd}')
}
