// What whoever runs the sandboxes answered, or that it did not answer, as one outcome.
import type { Answer } from '../kernel/ask.ts'
import type { Fallible } from './runtime.ts'

export function hostAnswer<T>(answer: Answer<Fallible<T>>): Fallible<T> {
  if (answer.ok) return answer.value
  const code = answer.error === 'deadline' ? 'timeout' : 'sandbox-gone'
  return { ok: false, error: { code, detail: `the sandbox host gave no answer: ${answer.error}` } }
}
