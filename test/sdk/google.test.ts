// The whole matrix through the SDK of google.
import { google } from './drivers/google.ts'
import { describeMatrix } from './matrix.ts'

describeMatrix(google)
