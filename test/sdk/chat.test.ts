// The whole matrix through the SDK of chat.
import { chat } from './drivers/chat.ts'
import { describeMatrix } from './matrix.ts'

describeMatrix(chat)
