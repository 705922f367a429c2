// The control API of the node that is looked at, as far as the doctor asks it.

export type Control = {
  get(path: string): Promise<ControlReply>
  post(path: string, body: unknown): Promise<ControlReply>
}

/** `detail` says what is wrong where the status is not 200. */
export type ControlReply = { readonly status: number; readonly body: unknown; readonly detail: string }
