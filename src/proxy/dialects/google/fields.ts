// One object of Google's JSON: its members may be spelt in camel or snake case, and a fault is told in the caller's spelling.
import type { Diagnostic } from '../../../contract/call.ts'
import { describe, isObject, type JsonObject } from '../../json.ts'
import { noteDropped } from '../../notes.ts'
import { isAbsent, list, object, refuse, text } from '../reading.ts'

export type Member = { readonly value: unknown; readonly name: string; readonly place: string }

/** Members that are there, by their camel-case names. */
export type Fields = { readonly place: string; readonly members: ReadonlyMap<string, Member> }

export const NO_FIELDS: Fields = { place: '', members: new Map() }

export function fieldsOf(value: unknown, place: string): Fields {
  const members = new Map<string, Member>()
  for (const [name, member] of Object.entries(object(value, place))) {
    const known = camelCase(name)
    // Protobuf's own JSON name wins over the other spelling, wherever it stands.
    if (isAbsent(member) || (members.has(known) && name !== known)) continue
    members.set(known, { value: member, name, place: place === '' ? name : `${place}.${name}` })
  }
  return { place, members }
}

/** Both, where `first` wins. */
export function overlaid(first: Fields, second: Fields): Fields {
  return { place: first.place, members: new Map([...second.members, ...first.members]) }
}

export function valueAt(fields: Fields, name: string): unknown {
  return fields.members.get(name)?.value
}

/** Where a member stands, or would stand. */
export function placeOf(fields: Fields, name: string): string {
  return fields.members.get(name)?.place ?? (fields.place === '' ? name : `${fields.place}.${name}`)
}

export function objectAt(fields: Fields, name: string): Fields | null {
  const member = fields.members.get(name)
  return member === undefined ? null : fieldsOf(member.value, member.place)
}

/** Empty when absent; an object alone stands for a list of one, as in Google's own examples. */
export function listAt(fields: Fields, name: string): readonly unknown[] {
  const member = fields.members.get(name)
  if (member === undefined) return []
  return isObject(member.value) ? [member.value] : list(member.value, member.place)
}

/** Null when absent. */
export function textAt(fields: Fields, name: string): string | null {
  const member = fields.members.get(name)
  return member === undefined ? null : text(member.value, member.place, true)
}

export function booleanAt(fields: Fields, name: string): boolean | null {
  const member = fields.members.get(name)
  if (member === undefined) return null
  return typeof member.value === 'boolean' ? member.value : refuse(member.place, `expected a boolean, got ${describe(member.value)}`)
}

/** Notes the members that are not carried over. */
export function noteOthers(fields: Fields, known: ReadonlySet<string>, diagnostics: Diagnostic[]): void {
  const others = [...fields.members].filter(([name]) => !known.has(name)).map(([, member]) => [member.name, member.value] as const)
  const dropped: JsonObject = Object.fromEntries(others)
  noteDropped(dropped, NOTHING_KNOWN, fields.place, diagnostics)
}

const NOTHING_KNOWN: ReadonlySet<string> = new Set()

function camelCase(name: string): string {
  // What follows may be missing, so that a long run of them is passed at once and not tried from each of its places.
  return name.replace(/_+([a-z0-9]?)/g, (run, letter: string) => (letter === '' ? run : letter.toUpperCase()))
}
