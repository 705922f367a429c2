// Agent CLIs and SDKs in front of a real model in SGLang's wire shape: every trained token is re-scored.
import { describeAgents } from './suite.ts'

describeAgents('sglang')
