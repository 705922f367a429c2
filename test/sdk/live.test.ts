// What each vendor's SDK makes of an answer that it hears grow.
import { describeEveryDialect } from './every-dialect.ts'
import { describeLive } from './matrix.ts'

describeEveryDialect(describeLive)
