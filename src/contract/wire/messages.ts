// Every message of the wire by its name: what /schemas serves, what OpenAPI refers to, and what must stay compatible.
import type { z } from 'zod'
import { addedReplicaSchema } from '../replica.ts'
import { captureEndSchema, captureSchema, sessionDispatchSchema, sessionRequestSchema } from '../session.ts'
import { agentSpecSchema, evaluatorSpecSchema, runtimeSpecSchema, strategySpecSchema, taskRequestSchema } from '../task.ts'
import { callbackList, callbackRow, redriven, redriveSchema, reportAccepted, reportedResult } from './callbacks.ts'
import { completionRecord, completionSession, sessionCompletions } from './completions.ts'
import { errorMessage } from './error.ts'
import { eventsLost, nodeEvent, sessionEvent, taskEvent } from './events.ts'
import { feedEntry, feedPage } from './feed.ts'
import { gatewayHealth, gatewayRoot, inferenceStatus, nodeInference, promptLength } from './inference.ts'
import { gatewayNodeInfo, health, nodeHeartbeat, nodeList, nodeRegistration, nodeStageMetrics } from './nodes.ts'
import { gatewayReplicas, replicaAdded, replicaInfo, replicaList, replicaRemoved } from './replicas.ts'
import { sessionResult, taskResult, taskStatus, tracesPage } from './result.ts'
import { schemaList } from './service.ts'
import {
  captureEnded,
  captureOpened,
  gatewaySessionList,
  gatewaySessionRow,
  sessionDeleted,
  sessionDispatched,
  sessionInfo,
  sessionOpened,
} from './sessions.ts'
import { rolloutStatus, sessionRow, taskList, taskRow, taskSessions, taskSubmitted } from './tasks.ts'
import { sessionTiming } from './timing.ts'
import { trace, traceMetadata } from './trace.ts'
import { reconstructionStats, trajectory, trajectoryMetadata } from './trajectory.ts'

/** The id of each schema is its name here. */
type Messages = Readonly<Record<string, z.ZodType>>

/** Written by clients. */
const TAKEN = {
  TaskRequest: taskRequestSchema,
  AgentSpec: agentSpecSchema,
  RuntimeSpec: runtimeSpecSchema,
  StrategySpec: strategySpecSchema,
  EvaluatorSpec: evaluatorSpecSchema,
  SessionRequest: sessionRequestSchema,
  SessionDispatchRequest: sessionDispatchSchema,
  CaptureRequest: captureSchema,
  CaptureEnd: captureEndSchema,
  NodeRegistration: nodeRegistration,
  NodeHeartbeat: nodeHeartbeat,
  ReplicaRequest: addedReplicaSchema,
  RedriveRequest: redriveSchema,
  ReportedResult: reportedResult,
} as const satisfies Messages

/** Written by this node. */
const GIVEN = {
  Error: errorMessage,
  SchemaList: schemaList,
  TaskSubmitted: taskSubmitted,
  TaskStatus: taskStatus,
  TaskResult: taskResult,
  SessionResult: sessionResult,
  TracesPage: tracesPage,
  SessionTiming: sessionTiming,
  Trajectory: trajectory,
  TrajectoryMetadata: trajectoryMetadata,
  ReconstructionStats: reconstructionStats,
  Trace: trace,
  TraceMetadata: traceMetadata,
  TaskRow: taskRow,
  TaskList: taskList,
  SessionRow: sessionRow,
  TaskSessions: taskSessions,
  RolloutStatus: rolloutStatus,
  SessionDispatched: sessionDispatched,
  SessionOpened: sessionOpened,
  CaptureOpened: captureOpened,
  CaptureEnded: captureEnded,
  SessionInfo: sessionInfo,
  SessionDeleted: sessionDeleted,
  GatewaySessionRow: gatewaySessionRow,
  GatewaySessionList: gatewaySessionList,
  CompletionRecord: completionRecord,
  SessionCompletions: sessionCompletions,
  CompletionSession: completionSession,
  Health: health,
  GatewayNodeInfo: gatewayNodeInfo,
  NodeList: nodeList,
  NodeStageMetrics: nodeStageMetrics,
  GatewayRoot: gatewayRoot,
  GatewayHealth: gatewayHealth,
  InferenceStatus: inferenceStatus,
  NodeInference: nodeInference,
  PromptLength: promptLength,
  Replica: replicaInfo,
  GatewayReplicas: gatewayReplicas,
  ReplicaList: replicaList,
  ReplicaAdded: replicaAdded,
  ReplicaRemoved: replicaRemoved,
  FeedPage: feedPage,
  FeedEntry: feedEntry,
  CallbackList: callbackList,
  CallbackRow: callbackRow,
  Redriven: redriven,
  ReportAccepted: reportAccepted,
  NodeEvent: nodeEvent,
  TaskEvent: taskEvent,
  SessionEvent: sessionEvent,
  EventsLost: eventsLost,
} as const satisfies Messages

export type Message = {
  readonly name: string
  readonly direction: 'taken' | 'given'
  readonly schema: z.ZodType
}

export const MESSAGES: readonly Message[] = [
  ...Object.entries(TAKEN).map(([name, schema]): Message => ({ name, direction: 'taken', schema })),
  ...Object.entries(GIVEN).map(([name, schema]): Message => ({ name, direction: 'given', schema })),
]
