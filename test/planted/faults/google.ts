// Broken rules of Google's dialect: whose call a result answers, what is a schema's type, how an answer and its streams are told.
import type { PlantedFault } from '../fault.ts'

const FOLDER = 'src/proxy/dialects/google'
const HISTORY = ['test/unit/dialect-google-history.test.ts']
const REQUEST = ['test/unit/dialect-google-request.test.ts']
const REPLY = ['test/unit/dialect-google-reply.test.ts']

export const GOOGLE_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a Google result goes to the first open call whatever id it has',
    file: `${FOLDER}/pairing.ts`,
    find: 'const awaited = open.byId(result.id)',
    replace: 'const awaited = null',
    suites: HISTORY,
  },
  {
    name: 'a result that a Google client repeats is given to the model twice',
    file: `${FOLDER}/pairing.ts`,
    find: 'again?.first === told ||',
    replace: '',
    suites: HISTORY,
  },
  {
    name: 'a Google call without an id is named by its place in its turn alone',
    file: `${FOLDER}/history.ts`,
    find: 'before + calls.length',
    replace: 'calls.length',
    suites: HISTORY,
  },
  {
    name: 'pieces of a Google model turn are joined as lines',
    file: `${FOLDER}/history.ts`,
    find: 'else content += part.text',
    replace: "else content += (content === '' ? '' : '\\n') + part.text",
    suites: HISTORY,
  },
  {
    name: 'neighbouring Google model contents are turns of their own',
    file: `${FOLDER}/history.ts`,
    find: 'if (isSameSide && (own === null',
    replace: 'if (isSameSide && !isModel && (own === null',
    suites: ['test/unit/dialect-google-sdk.test.ts'],
  },
  {
    name: 'a property that is called type is taken for a type',
    file: `${FOLDER}/schema.ts`,
    find: 'if (SCHEMA_MAPS.has(name) && isObject(value)) {\n    return [name, Object.fromEntries(Object.entries(value).map(([property, schema]) => [property, schemaIn(schema)]))]',
    replace: 'if (SCHEMA_MAPS.has(name) && isObject(value)) {\n    return [name, jsonSchema(value)]',
    suites: REQUEST,
  },
  {
    name: 'a medium that no engine sees is left out of a Google prompt',
    file: `${FOLDER}/media.ts`,
    find: "if (type?.startsWith('image/') === true) return type",
    replace: "if (type !== null || type === null) return type ?? ''",
    suites: REQUEST,
  },
  {
    name: 'a Google function call is forced in a training session',
    file: `${FOLDER}/tools.ts`,
    find: "      refuseInTraining(placeOf(calling, 'mode'), tier)\n",
    replace: '',
    suites: REQUEST,
  },
  {
    name: 'every response of a Google stream says that it is the last',
    file: `${FOLDER}/stream.ts`,
    find: 'responseOf([before], identity, null)',
    replace: "responseOf([before], identity, { candidate: { finishReason: 'STOP' }, usageMetadata: {} })",
    suites: REPLY,
  },
  {
    name: 'a Google answer that says nothing has no part',
    file: `${FOLDER}/response.ts`,
    find: "text === '' && calls.length > 0 ? [] : [textPart(",
    replace: "text === '' ? [] : [textPart(",
    suites: ['test/unit/dialect-table.test.ts'],
  },
  {
    name: 'the array of a Google stream has no commas',
    file: `${FOLDER}/stream.ts`,
    find: "    separator = ',\\r\\n'\n",
    replace: '',
    suites: REPLY,
  },
  {
    name: 'a long number in a Google call is rounded',
    file: 'src/proxy/dialects/arguments.ts',
    find: 'JSON.parse(text, exactNumber)',
    replace: 'JSON.parse(text)',
    suites: REPLY,
  },
  {
    name: 'the model in a Google path ends at its first colon',
    file: 'src/proxy/detect.ts',
    find: "named.lastIndexOf(':')",
    replace: "named.indexOf(':')",
    suites: ['test/unit/dialect-google-routes.test.ts'],
  },
]
