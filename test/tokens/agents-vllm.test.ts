// Agent CLIs and SDKs in front of a real model in vLLM's wire shape: every trained token is re-scored.
import { describeAgents } from './agents-of.ts'

describeAgents('vllm')
