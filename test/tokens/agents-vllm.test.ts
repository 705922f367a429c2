// Agent CLIs and SDKs in front of a real model in vLLM's wire shape: every trained token is re-scored.
import { describeAgents } from './suite.ts'

describeAgents('vllm')
