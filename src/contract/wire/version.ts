// Which edition of the messages this node speaks.

/** Major: something that was promised is gone. Minor: something was added. */
export const SCHEMA_VERSION = '1.0'
