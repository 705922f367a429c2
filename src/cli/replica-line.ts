// One inference server of a gateway, as a row of the control API, in the words of a person.

type Row = Readonly<Record<string, unknown>>

export function describeReplica(row: Row): string {
  const why = typeof row.detail === 'string' ? `  (${row.detail})` : ''
  if (row.role === 'router') return `replica ${row.id}  ${row.url}  router, ${row.state}${why}`
  const rank = typeof row.data_parallel_rank === 'number' ? ` rank ${row.data_parallel_rank}` : ''
  const facts = [
    `${row.state}, ${row.tier}`,
    `in flight ${row.in_flight}/${row.max_in_flight}, waiting ${row.waiting}`,
    ...(typeof row.max_model_len === 'number' ? [`${row.max_model_len} tokens`] : []),
    ...(row.logprob_mode === 'unknown' ? [] : [`${row.logprob_mode} logprobs`]),
    ...(typeof row.weight_version === 'string' ? [`weights ${row.weight_version}`] : []),
  ]
  const what = row.embedded === true ? '  embedded engine' : ''
  return `replica ${row.id}  ${row.url}${rank}${what}  ${facts.join('  ')}${why}`
}
