import { Buffer } from 'node:buffer'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { openEventStream } from '../../src/proxy/engines/event-stream.ts'

function eventsIn(pieces: readonly Uint8Array[]): readonly string[] {
  const taken: string[] = []
  const stream = openEventStream((data) => taken.push(data))
  for (const piece of pieces) stream.push(piece)
  return taken
}

describe('an event stream', () => {
  it.each([
    ['lines of either ending', 'data: a\r\n\r\ndata: b\n\n', ['a', 'b']],
    ['comments and names left out', ': ping\n\nevent: x\nid: 1\ndata: a\n\n', ['a']],
    ['data of several lines', 'data: a\ndata:b\n\n', ['a\nb']],
    ['an event that is not finished', 'data: a\n\ndata: b\n', ['a']],
  ])('reads %s', (_name, text, events) => {
    expect(eventsIn([Buffer.from(text)])).toEqual(events)
  })

  it('gives the same events wherever its bytes are cut', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 20 }).map((line) => line.replace(/[\r\n]/g, ''))
    fc.assert(
      fc.property(fc.array(text), fc.array(fc.nat(400)), (lines, cuts) => {
        const bytes = Buffer.from(lines.map((line) => `data: ${line}\n\n`).join(''))
        const places = [0, ...cuts.map((cut) => Math.min(cut, bytes.length)).sort((one, other) => one - other), bytes.length]
        expect(eventsIn(places.slice(1).map((end, index) => bytes.subarray(places[index], end)))).toEqual(lines)
      }),
    )
  })

  it('says how much of an unfinished event it holds, and lets go of a finished one', () => {
    const stream = openEventStream(() => {})
    expect(stream.push(Buffer.from('data: 1234'))).toBe(10)
    expect(stream.push(Buffer.from('5678'))).toBe(14)
    expect(stream.push(Buffer.from('\n\n'))).toBe(0)
  })
})
