// The tasks of an evaluation, as a file holds them: JSON lines, a list, or one template with its instances.
import { createHash } from 'node:crypto'
import { basename, extname } from 'node:path'
import { parse as parseYaml } from 'yaml'
import { z } from 'zod'
import { problemsOf } from '../contract/problems.ts'
import { taskRequestSchema } from '../contract/task.ts'
import { fillTemplate } from './template.ts'

export type Dataset = {
  /** The file's name without its ending. */
  readonly name: string
  /** Of the file's bytes. */
  readonly sha256: string
  /** In the order of the file, which is what a task's seeds depend on. */
  readonly tasks: readonly DatasetTask[]
}

export type DatasetTask = {
  /** What the file calls it: its `task_id`, or else its place, from `1`. */
  readonly name: string
  /** A TaskRequest that is valid once it has an id. */
  readonly request: Readonly<Record<string, unknown>>
}

export type ReadDataset = { readonly ok: true; readonly dataset: Dataset } | { readonly ok: false; readonly problem: string }

type Place = { readonly at: string; readonly value: unknown }
type Places = { readonly ok: true; readonly places: readonly Place[] } | { readonly ok: false; readonly problem: string }

const taskObject = z.record(z.string(), z.unknown())
const templated = z.strictObject({ template: taskObject, instances: z.array(z.unknown()) })

/** Problems name the file and where in it. */
export function readDataset(file: string, bytes: Uint8Array): ReadDataset {
  const found = placesIn(file, new TextDecoder().decode(bytes))
  if (!found.ok) return found
  if (found.places.length === 0) return { ok: false, problem: `${file}: holds no task` }
  const tasks: DatasetTask[] = []
  const names = new Map<string, string>()
  for (const { at, value } of found.places) {
    const given = taskObject.safeParse(value)
    if (!given.success) return { ok: false, problem: `${at}: must be an object, a TaskRequest as it is submitted` }
    const request = { task_id: String(tasks.length + 1), ...given.data }
    const parsed = taskRequestSchema.safeParse(request)
    if (!parsed.success) return { ok: false, problem: problemsOf(at, request, parsed.error) }
    const name = parsed.data.task_id
    const other = names.get(name)
    if (other !== undefined) return { ok: false, problem: `${at}: task_id ${name} is that of ${other}, too` }
    names.set(name, at)
    tasks.push({ name, request })
  }
  return { ok: true, dataset: { name: basename(file, extname(file)), sha256: createHash('sha256').update(bytes).digest('hex'), tasks } }
}

function placesIn(file: string, text: string): Places {
  return ['.jsonl', '.ndjson'].includes(extname(file)) ? linesIn(file, text) : itemsIn(file, text)
}

function linesIn(file: string, text: string): Places {
  const places: Place[] = []
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue
    const at = `${file}:${index + 1}`
    try {
      places.push({ at, value: JSON.parse(line) })
    } catch (error) {
      return { ok: false, problem: `${at}: ${messageOf(error)}` }
    }
  }
  return { ok: true, places }
}

function itemsIn(file: string, text: string): Places {
  let value: unknown
  try {
    // JSON is a part of YAML.
    value = parseYaml(text)
  } catch (error) {
    return { ok: false, problem: `${file}: ${messageOf(error)}` }
  }
  if (Array.isArray(value)) return { ok: true, places: value.map((item: unknown, at) => ({ at: `${file}: [${at}]`, value: item })) }
  if (typeof value !== 'object' || value === null || !('template' in value)) return { ok: true, places: [{ at: `${file}: task`, value }] }
  const parsed = templated.safeParse(value)
  if (!parsed.success) return { ok: false, problem: problemsOf(file, value, parsed.error, ['template', 'instances']) }
  const places: Place[] = []
  for (const [index, instance] of parsed.data.instances.entries()) {
    const at = `${file}: instances[${index}]`
    const filled = fillTemplate(parsed.data.template, instance)
    if (!filled.ok) return { ok: false, problem: `${at}: ${filled.problem}` }
    places.push({ at, value: filled.value })
  }
  return { ok: true, places }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
