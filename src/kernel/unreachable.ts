// The end of an exhaustive switch: a new variant of a union breaks the build here.

export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`)
}
