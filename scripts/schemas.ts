// Prints the JSON Schemas of every message: `node scripts/schemas.ts > schemas/v1.json` after an addition.
import { currentEdition } from '../src/contract/wire/edition.ts'

process.stdout.write(`${JSON.stringify(currentEdition(), null, 2)}\n`)
