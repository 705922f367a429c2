import { slug } from './slug.js'

const cases = [
  ['lower-cases letters', 'Hello', 'hello'],
  ['joins words with one dash', 'hello big world', 'hello-big-world'],
  ['collapses runs of spaces', 'hello   world', 'hello-world'],
  ['drops punctuation', 'Hello, world!', 'hello-world'],
  ['has no dash at either end', '  hello world  ', 'hello-world'],
]

let failures = 0
for (const [name, title, expected] of cases) {
  const actual = slug(title)
  if (actual !== expected) failures += 1
  console.log(`${actual === expected ? 'PASSED' : 'FAILED'} ${name}`)
}
process.exit(failures === 0 ? 0 : 1)
