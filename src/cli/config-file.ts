// Which configuration file a command means: the one it names, or Polar's POLAR_TOPOLOGY.

/** Null: none, every default applies. */
export function configFile({ config }: { readonly config?: string }): string | null {
  const { POLAR_TOPOLOGY: fromEnvironment = '' } = process.env
  return config ?? (fromEnvironment === '' ? null : fromEnvironment)
}

const IGNORED: Readonly<Record<string, string>> = {
  POLAR_ROLLOUT_SAVE_DIR: 'results are kept by the node and read from GET /rollout/task/<id>',
  POLAR_GATEWAY_NODE_ID: 'this process is every gateway of its configuration',
  POLAR_UVICORN_ACCESS_LOG: 'no request is logged by itself',
  POLAR_ROLLOUT_EXAMPLES_DIR: 'no example is written; polar status <task> and GET /sessions/<id> show any session',
  POLAR_EVAL_DATA_INTEGRITY_B64: 'polar eval --sha256 pins its file',
}

/** Variables of Polar that are set and have no effect on a node, and what is so instead. */
export function ignoredVariables(environment: Readonly<Record<string, string | undefined>>): readonly string[] {
  return Object.entries(IGNORED).flatMap(([name, reason]) =>
    (environment[name] ?? '') === '' ? [] : [`${name} has no effect here: ${reason}`],
  )
}
