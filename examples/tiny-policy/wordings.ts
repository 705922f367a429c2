// What the scripted policy says and writes: several wordings of each step, and the fixes it knows, right and wrong.

export const WORDS = {
  careful: {
    texts: [
      'I will read the code and its tests first.',
      'Let me read slug.js and its tests.',
      'First I read the code and what its tests ask for.',
    ],
    commands: ['cat slug.js test.js', 'cat slug.js test.js', 'cat test.js slug.js', 'ls && cat slug.js test.js'],
  },
  hasty: {
    texts: ['Let me look at the code.', 'I will look at slug.js.', 'Let me see the function.'],
    commands: ['cat slug.js', 'cat slug.js', 'ls && cat slug.js'],
  },
  /** Names that are not there. */
  slips: ['cat slug.js tests.js', 'cat slug.js test/slug.js'],
  lost: ['That file is not there.', 'Which files are there?'],
  lookAgain: ['Now the files.', 'Let me read them.'],
  secondThought: ['Now the tests.', 'I should read the tests too.'],
  check: ['Now I run the tests.', 'Let me run the tests.', 'Does it pass?'],
  checkCommands: ['node test.js'],
  broken: ['I left out a bracket; I write it again.', 'That does not parse. Again:'],
  mend: ['Some tests still fail: punctuation and dashes at the ends.', 'Not all pass yet. I drop all that is no letter or digit.'],
  end: ['The slug function is fixed.', 'I fixed slug.js.', 'Done: slug.js is fixed.'],
  endGreen: ['The slug function is fixed, and all tests pass.', 'Fixed: all tests pass.', 'All tests pass now.'],
  endUnsure: ['The main cases work now.', 'slug.js is better, but not all tests pass.'],
} as const

export type Fix = { readonly text: string; readonly command: string }

export const RIGHT: readonly Fix[] = [
  {
    text: 'Everything that is not a letter or a digit must become one dash, and none may stand at an end.',
    command: file("  return title\n    .toLowerCase()\n    .replace(/[^a-z0-9]+/g, '-')\n    .replace(/^-|-$/g, '')"),
  },
  {
    text: 'I split the title at all that is no letter or digit and join the words with dashes.',
    command: file("  return title\n    .toLowerCase()\n    .split(/[^a-z0-9]+/)\n    .filter(Boolean)\n    .join('-')"),
  },
  {
    text: 'The words of the title are what counts: I take them and join them.',
    command: file("  const words = title.toLowerCase().match(/[a-z0-9]+/g) ?? []\n  return words.join('-')"),
  },
  {
    text: 'One line has to change.',
    command: line("title.toLowerCase().split(/[^a-z0-9]+/).filter(Boolean).join('-')"),
  },
]

export const WRONG: readonly Fix[] = [
  {
    text: 'Runs of spaces must be collapsed.',
    command: file("  return title.toLowerCase().replace(/ +/g, '-')"),
  },
  {
    text: 'Spaces at the ends must go, and runs of them become one dash.',
    command: file("  return title.toLowerCase().trim().replace(/ +/g, '-')"),
  },
  {
    text: 'All that is no letter or digit must become one dash.',
    command: file("  return title.toLowerCase().replace(/[^a-z0-9]+/g, '-')"),
  },
  {
    text: 'One line has to change.',
    command: line("title.toLowerCase().trim().replace(/ +/g, '-')"),
  },
]

/** They do not parse. */
export const BROKEN: readonly Fix[] = [
  {
    text: 'Everything that is not a letter or a digit must become one dash, and none may stand at an end.',
    command: file("  return title\n    .toLowerCase()\n    .replace(/[^a-z0-9]+/g, '-'\n    .replace(/^-|-$/g, '')"),
  },
]

function file(body: string): string {
  const comment = '// Turns a title into the part of a URL that names a page.'
  return `cat > slug.js <<'EOF'\n${comment}\nexport function slug(title) {\n${body}\n}\nEOF`
}

function line(expression: string): string {
  return `sed -i "s#return .*#return ${expression}#" slug.js`
}
