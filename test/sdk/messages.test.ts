// The whole matrix through the SDK of messages.
import { messages } from './drivers/messages.ts'
import { describeMatrix } from './matrix.ts'

describeMatrix(messages)
