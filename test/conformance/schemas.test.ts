// The messages of this version against those that were promised: schemas/v<major>.json.
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv2020 as Validator } from 'ajv/dist/2020.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { currentEdition, type Edition } from '../../src/contract/wire/edition.ts'
import { MESSAGES } from '../../src/contract/wire/messages.ts'
import { SCHEMA_VERSION } from '../../src/contract/wire/version.ts'
import { incompatibilities } from '../lib/schema-compatibility.ts'
import { openControl } from './control-world.ts'

const current = currentEdition()
const file = `schemas/v${SCHEMA_VERSION.split('.')[0]}.json`
const path = resolve(import.meta.dirname, '../..', file)
const renewal = `node scripts/schemas.ts > ${file} (once this version was released, a higher minor in src/contract/wire/version.ts first)`

describe('the promised messages', () => {
  it('keep their meaning: a change that breaks a client needs a new major version in src/contract/wire/version.ts', () => {
    expect(existsSync(path), `there is no ${file} yet; write it with: ${renewal}`).toBe(true)
    expect(incompatibilities(promised(), current)).toEqual([])
  })

  it('stand in the file as they are', () => {
    expect(current, `${file} is out of date; renew it with: ${renewal}`).toEqual(promised())
  })

  it.each(MESSAGES)('$name refers to messages of its own direction only, by which it is compared', ({ name, direction }) => {
    const others = [...JSON.stringify(current.messages[name]?.schema).matchAll(/"#\/messages\/(\w+)\/schema"/g)].map(
      ([, other = '']) => other,
    )
    expect(others.filter((other) => current.messages[other]?.direction !== direction)).toEqual([])
  })

  function promised(): Edition {
    return JSON.parse(readFileSync(path, 'utf8'))
  }
})

describe('GET /schemas', () => {
  const validator = new Validator({ strict: false, validateFormats: false })
  let control: Awaited<ReturnType<typeof openControl>>
  beforeAll(async () => {
    control = await openControl()
  })
  afterAll(async () => control.close())

  it('lists every message, by the version', async () => {
    const { status, body } = await control.call('GET', '/schemas')
    expect(status).toBe(200)
    expect(body.schema_version).toBe(SCHEMA_VERSION)
    expect(body.schemas.map(({ name }: { name: string }) => name)).toEqual(MESSAGES.map(({ name }) => name))
  })

  it.each(MESSAGES)('serves $name, complete in itself', async ({ name }) => {
    const { status, headers, body } = await control.call('GET', `/schemas/${name}.json`)
    expect(status).toBe(200)
    expect(headers['content-type']).toContain('application/schema+json')
    expect(body).toMatchObject({ $schema: 'https://json-schema.org/draft/2020-12/schema', $id: `${name}.json`, title: name })
    expect(() => validator.compile(body)).not.toThrow()
  })

  it('knows no other', async () => {
    expect((await control.call('GET', '/schemas/Unheard.json')).headers['x-polar-error']).toBe('schema-unknown')
  })
})
