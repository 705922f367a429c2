// The words for where something long-lived stands in its life; the same everywhere.

export type Lifecycle = 'starting' | 'running' | 'draining' | 'drained' | 'stopped' | 'failed'
