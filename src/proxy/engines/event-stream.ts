// Server-sent events out of bytes that are cut anywhere: the data of each event, once, when it is whole.

export type EventStream = {
  /** Answers how many bytes of an unfinished event are held. */
  push(bytes: Uint8Array): number
}

/** Names, ids and comments of events are of no engine's answers. */
export function openEventStream(take: (data: string) => void): EventStream {
  // What is no UTF-8 is the engine's fault and not worth an answer.
  const decoder = new TextDecoder('utf-8')
  let line = ''
  let data: string[] = []
  let held = 0

  function endLine(text: string): void {
    const content = text.endsWith('\r') ? text.slice(0, -1) : text
    if (content.startsWith('data:')) {
      data.push(content.slice(content.charAt(5) === ' ' ? 6 : 5))
      return
    }
    if (content !== '' || data.length === 0) return
    const whole = data.join('\n')
    data = []
    held = 0
    take(whole)
  }

  return {
    push(bytes) {
      held += bytes.byteLength
      const text = decoder.decode(bytes, { stream: true })
      let from = 0
      for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
        const ended = line + text.slice(from, end)
        line = ''
        from = end + 1
        endLine(ended)
      }
      line += text.slice(from)
      return held
    },
  }
}
