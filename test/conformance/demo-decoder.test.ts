// The demo shows its trace in the engine's own words, whichever engine it ran.
import { afterEach, expect, it } from 'vitest'
import { engineDecoder } from '../../examples/demo/decoded-trace.ts'
import { openScriptedEngine, type ScriptedEngine } from '../../src/engine/scripted/engine.ts'

const opened: ScriptedEngine[] = []
afterEach(async () => {
  for (const engine of opened.splice(0)) await engine.close()
})

// The scripted engine's shape, and that of the node's own.
it.each(['vllm', 'sglang'] as const)('decodes by an engine of the shape of %s', async (shape) => {
  const engine = await openScriptedEngine({ generator: {}, shape })
  opened.push(engine)
  // `<|im_end|>`, a line break, `<think>`: of Qwen3.
  expect(await engineDecoder(engine.url)([151_645, 198, 151_667])).toBe('<|im_end|>\n<think>')
})
