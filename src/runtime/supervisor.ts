// The small shell program that stands over one launched command: it outlives its launcher, bounds the output, and leaves the exit status.
import { constants } from 'node:os'
import type { ProcessExit } from './runtime.ts'

/** Environment variables by which a sandbox's processes are recognised wherever they go. */
export const SANDBOX_MARK = 'POLAR_SANDBOX_MARK'
export const PROCESS_MARK = 'POLAR_PROCESS_MARK'

/** `$0` of the supervisor: with the run folder after it, the proof that a pid is one of ours. */
export const SUPERVISOR_NAME = 'polar-supervisor'

/** Where the supervisor finds its own tools, whatever PATH the command was given. */
const TOOL_PATH = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin'

// A POSIX shell answers 128+n both for `exit 137` and for a death by signal 9, but it writes a line to its own stderr only when a
// foreground child died by a signal (except INT and PIPE, which are reported as exits 130 and 141). `result` holds that line and the code.
// dd writes what it read at once, so that nothing sits in a buffer when the tree is killed; it is the only writer of the file, so the file
// may be cut to its tail between two rounds. Output of a daemon that outlives the command keeps draining after the status is written.
const PROGRAM = `
umask 077
run=$1 out=$2 err=$3 max=$4 cwd=$5 sandbox_mark=$6 process_mark=$7 tools=$8
command_path=$PATH
PATH=$tools
trap '' HUP INT TERM
rounds=$((max / 16384)); [ "$rounds" -lt 64 ] && rounds=64; [ "$rounds" -gt 512 ] && rounds=512
drain() {
  while :; do
    moved=$(dd bs=16384 count="$rounds" 2>&1 >>"$1")
    case $moved in
      '0+0 records in'*) break ;;
      '') sleep 1 ;;
    esac
    # Its folder was taken away: the command may go on, and nobody reads what it says.
    [ -e "$1" ] || { cat >/dev/null; break; }
    if [ "$(wc -c <"$1")" -gt "$((max * 2))" ]; then
      { echo '[polar-node: earlier output was left out]'; tail -c "$max" "$1"; } >"$1.tail" && mv "$1.tail" "$1"
    fi
  done
}
run_command() (
  trap - HUP INT TERM
  exec >&3 2>&4 3>&- 4>&- 5>&-
  read -r pid name state ppid group session tty owner flags f1 f2 f3 f4 t1 t2 t3 t4 priority nice threads timer start rest </proc/self/stat
  echo "$pid $start" >"$run/session"
  cd "$cwd" || exit 126
  unset OLDPWD
  setsid=$(command -v setsid) || exit 127
  export ${SANDBOX_MARK}="$sandbox_mark" ${PROCESS_MARK}="$process_mark" PATH="$command_path"
  exec "$setsid" /bin/sh "$run/command"
)
body() {
  result=$({ run_command; echo "status=$?"; } 2>&1)
  code=\${result##*status=}
  note=\${result%status=*}
  if [ "$code" -gt 128 ] && [ -n "$note" ]; then echo "signalled $((code - 128))"; else echo "exited $code"; fi >"$run/status.new"
  mv "$run/status.new" "$run/status"
}
{ { body 3>&1 4>&5 >/dev/null | drain "$out" 5>&- >/dev/null; } 5>&1 | drain "$err" >/dev/null; }
`

export type Supervision = {
  readonly runFolder: string
  readonly stdoutFile: string
  readonly stderrFile: string
  readonly maxOutputBytes: number
  readonly cwd: string
  readonly sandboxMark: string
  readonly processMark: string
}

/** Arguments for `/bin/sh`; the command itself is read from `<runFolder>/command`, the environment is inherited. */
export function supervisorArguments(supervision: Supervision): readonly string[] {
  return [
    '-c',
    PROGRAM,
    SUPERVISOR_NAME,
    supervision.runFolder,
    supervision.stdoutFile,
    supervision.stderrFile,
    String(supervision.maxOutputBytes),
    supervision.cwd,
    supervision.sandboxMark,
    supervision.processMark,
    TOOL_PATH,
  ]
}

/** What the supervisor left in its status file; null for anything it would not have written. */
export function parseStatus(text: string): ProcessExit | null {
  const match = /^(exited|signalled) (\d{1,3})\n$/.exec(text)
  if (match === null) return null
  const value = Number(match[2])
  if (match[1] === 'exited') return { type: 'exited', code: value }
  const name = Object.entries(constants.signals).find(([, number]) => number === value)?.[0]
  return { type: 'signalled', signal: name ?? `SIG${value}` }
}
