// The engines by their names in the configuration.
import type { EngineKind } from '../../contract/call.ts'
import type { Engine } from './engine.ts'
import { llamacpp } from './llamacpp.ts'
import { sglang } from './sglang.ts'
import { sglangNative } from './sglang-native.ts'
import { vllm } from './vllm.ts'

export const ENGINES: { readonly [kind in EngineKind]: Engine } = { vllm, sglang, 'sglang-native': sglangNative, llamacpp }
