// The whole matrix through the SDK of responses.
import { responses } from './drivers/responses.ts'
import { describeMatrix } from './matrix.ts'

describeMatrix(responses)
