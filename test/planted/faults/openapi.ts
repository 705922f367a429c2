// Broken rules of what the node says of its own words: the OpenAPI document, the schemas of messages, and what they promise.
import type { PlantedFault } from '../fault.ts'

const DOCUMENT = ['test/conformance/openapi.test.ts']
const SCHEMAS = ['test/conformance/schemas.test.ts']

export const OPENAPI_FAULTS: readonly PlantedFault[] = [
  {
    name: 'a control route does not say what it answers',
    file: 'src/http/routes/tasks.ts',
    find: "app.get('/tasks', list, async",
    replace: "app.get('/tasks', async",
    suites: DOCUMENT,
  },
  {
    name: 'a task row lacks a key that is documented',
    file: 'src/http/shapes.ts',
    find: "    source: 'live',\n",
    replace: '',
    suites: DOCUMENT,
  },
  {
    name: 'a task row has a key that is documented nowhere',
    file: 'src/http/shapes.ts',
    find: "    source: 'live',\n",
    replace: "    source: 'live',\n    sessions: view.sessions.length,\n",
    suites: DOCUMENT,
  },
  {
    name: 'an inference server has a key that is documented nowhere',
    file: 'src/http/shapes.ts',
    find: '    role: replica.role,\n',
    replace: '    role: replica.role,\n    kind: replica.engine,\n',
    suites: ['test/e2e/documented-answers.test.ts'],
  },
  {
    name: 'two operations bear one id',
    file: 'src/http/openapi.ts',
    find: "path.endsWith('/') ? 'Root' : ''",
    replace: "''",
    suites: DOCUMENT,
  },
  {
    name: 'the document says that health needs the token',
    file: 'src/http/operation.ts',
    find: '      ...(isOpen ? { security: [] } : {}),\n',
    replace: '',
    suites: DOCUMENT,
  },
  {
    name: 'the document demands a body that may be left out',
    file: 'src/http/openapi.ts',
    find: 'required: isOptional !== true',
    replace: 'required: true',
    suites: DOCUMENT,
  },
  {
    name: 'the document refers to a schema that it does not hold',
    file: 'src/contract/wire/messages.ts',
    find: '  TraceMetadata: traceMetadata,\n',
    replace: '',
    suites: DOCUMENT,
  },
  {
    name: 'an answer may leave out what was promised',
    file: 'src/contract/wire/tasks.ts',
    find: '    errored_sessions: count,\n',
    replace: '    errored_sessions: count.optional(),\n',
    suites: SCHEMAS,
  },
  {
    name: 'a task that was taken is refused for a key that it lacks',
    file: 'src/contract/task.ts',
    find: ".default(1).describe('sessions')",
    replace: ".describe('sessions')",
    suites: SCHEMAS,
  },
  {
    name: 'a schema file lacks what it refers to',
    file: 'src/contract/wire/json-schema.ts',
    find: 'Object.keys(others).length === 0 ?',
    replace: 'Object.keys(others).length >= 0 ?',
    suites: SCHEMAS,
  },
]
