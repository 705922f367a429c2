// Broken rules of the doctor: what it calls whole, what it shows, what it names as a remedy, and whose files it touches.
import type { PlantedFault } from '../fault.ts'

export const DOCTOR_FAULTS: readonly PlantedFault[] = [
  {
    name: 'the doctor calls a harness whole that never made a second call',
    file: 'src/doctor/drift-report.ts',
    find: ' && rows > 0 && withTurns > 0',
    replace: ' && rows > 0',
    suites: ['test/unit/doctor-drift-report.test.ts'],
  },
  {
    name: 'the doctor shows the last break of a cause, of which it has no text',
    file: 'src/doctor/drift-report.ts',
    find: 'group.find(({ edge }) => edge.drift?.window != null)',
    replace: 'group.findLast(({ edge }) => edge.drift?.window != null)',
    suites: ['test/unit/doctor-drift-report.test.ts'],
  },
  {
    name: 'the doctor counts a cut turn that went on as a row of its own',
    file: 'src/doctor/drift-report.ts',
    find: 'drift.reason, SPLITTING.has(edge.kind)]',
    replace: 'drift.reason]',
    suites: ['test/unit/doctor-drift-report.test.ts'],
  },
  {
    name: 'the doctor shows a terminal what a model wrote as it is',
    file: 'src/doctor/drift-text.ts',
    find: '[\\p{Cc}\\p{Cf}\\p{Zl}\\p{Zp}]',
    replace: '[\\p{Zl}\\p{Zp}]',
    suites: ['test/unit/doctor-drift-text.test.ts'],
  },
  {
    name: 'the doctor names a setting that its harness does not have',
    file: 'src/doctor/remedies.ts',
    find: "setting('codex', 'stream_max_retries'",
    replace: "setting('codex', 'max_retries'",
    suites: ['test/unit/doctor-remedies.test.ts'],
  },
  {
    name: 'the doctor prescribes splice where the prompt itself begins otherwise',
    file: 'src/doctor/remedies.ts',
    find: '  D8: [\n',
    replace: '  D8: [\n    SPLICE,\n',
    suites: ['test/unit/doctor-remedies.test.ts'],
  },
  {
    name: 'the doctor reads half a character as the end of what both sides have',
    file: 'src/doctor/window-text.ts',
    find: 'Math.min(sharedLength(alone.text, one.text), sharedLength(alone.text, other.text))',
    replace: 'alone.text.length',
    suites: ['test/unit/doctor-window-text.test.ts'],
  },
  {
    name: 'the doctor runs its sessions in the data folder of the user’s node',
    file: 'src/doctor/temporary-node.ts',
    find: "    dataDir: join(folder, 'data'),\n",
    replace: '',
    suites: ['test/unit/doctor-node.test.ts'],
  },
  {
    name: 'the doctor looks at drift with an engine whose tokens cannot be trained',
    file: 'src/doctor/engine-readiness.ts',
    find: "state === 'up' && tier === 'eval'",
    replace: "state === 'up' && tier === 'none'",
    suites: ['test/unit/doctor-node.test.ts'],
  },
  {
    name: 'the doctor reads SGLang’s windows without the tokens that begin a turn',
    file: 'src/doctor/detokenizer.ts',
    find: 'skip_special_tokens: false',
    replace: 'skip_special_tokens: true',
    suites: ['test/conformance/doctor-detokenizer.test.ts'],
  },
  {
    name: 'the doctor shows a cut turn’s window where the turn begins',
    file: 'src/trajectory/analysis.ts',
    find: 'windowAt(earlier, later, earlier.promptIds.length + earlier.sampledIds.length)',
    replace: 'windowAt(earlier, later, earlier.promptIds.length)',
    suites: ['test/unit/doctor-cut-turn.test.ts'],
  },
]
