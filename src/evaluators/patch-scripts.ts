// The shell text of each step in which a patch is taken and applied. Every step works in the repository's folder with a private git folder.

export const GIT_ENVIRONMENT: Readonly<Record<string, string>> = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_TERMINAL_PROMPT: '0',
  LC_ALL: 'C',
}

// Bytes are taken as they are: attributes in the private git folder outrank every .gitattributes, so neither line ends, filters nor
// encodings of the work tree apply, and no configuration there names a program to run.
const OPEN = `
set -eu
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_EXTERNAL_DIFF GIT_DIFF_OPTS \\
  GIT_CONFIG GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_ATTR_SOURCE GIT_CEILING_DIRECTORIES GIT_TEMPLATE_DIR GIT_NAMESPACE GIT_PREFIX || :
open_private() {
  git init -q --bare --template= --object-format="$2" "$1/git"
  export GIT_DIR="$1/git" GIT_WORK_TREE="$PWD"
  for setting in bare=false fileMode=true symlinks=true autocrlf=false safecrlf=false ignoreCase=false precomposeUnicode=false \\
    fsmonitor=false untrackedCache=false hooksPath=/dev/null attributesFile=/dev/null excludesFile=/dev/null compression=1 fsync=none; do
    git config "core.\${setting%%=*}" "\${setting#*=}"
  done
  mkdir -p "$GIT_DIR/info"
  echo '* -text -filter -ident !eol !working-tree-encoding !diff !merge' >"$GIT_DIR/info/attributes"
}
# Names and hashes of what a commit of everything would hold, without storing a file. Known names go first: one that is a folder now must
# be gone before what lies in it comes. A name that ends in a slash is a repository inside.
list_work_tree() {
  git ls-files -z --cached | git update-index --add --remove --replace --info-only -z --stdin
  git ls-files -z --others --exclude-standard | tr '\\0\\n' '\\n\\0' | sed -e '/\\/$/d' | tr '\\n\\0' '\\0\\n' |
    git update-index --add --replace --info-only -z --stdin
  git ls-files --stage -z
}
`

/** Prints the path of a new folder outside the repository. */
export const MAKE_FOLDER = `mktemp -d "\${TMPDIR:-/tmp}/polar-grade.XXXXXX"`

/** Needs POLAR_BASE. Prints its folder and the object format; leaves the listings of the base (\`base\`) and of the work tree (\`now\`). */
export const LIST_FRESH = `${OPEN}
folder=$(${MAKE_FOLDER})
trusted() { git -c safe.directory='*' -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }
tree=$(trusted rev-parse --verify --quiet "$POLAR_BASE:./") || { echo "$PWD: no commit '$POLAR_BASE' in a git repository here" >&2; exit 1; }
format=$(trusted rev-parse --show-object-format)
objects=$(cd "$(trusted rev-parse --git-path objects)" && pwd)
open_private "$folder" "$format"
echo "$objects" >"$GIT_DIR/objects/info/alternates"
git read-tree "$tree"
git ls-files --stage -z >"$folder/base"
list_work_tree >"$folder/now"
echo "$folder"
echo "$format"
`

// The agent's processes are dead and its sandbox will not run again. What is neither file, link nor folder cannot be in a patch, and what
// cannot be read would break the listing.
export const LIST_AGENT = `${OPEN}
find . -path ./.git -prune -o \\( -type p -o -type s -o -type b -o -type c \\) -exec rm -f {} + || :
chmod -R u+rX . 2>/dev/null || :
open_private "$POLAR_FOLDER" "$POLAR_FORMAT"
git update-index -z --index-info <"$POLAR_FOLDER/base"
list_work_tree >"$POLAR_FOLDER/now"
`

export const PACK_BASE = `${OPEN}
export GIT_DIR="$POLAR_FOLDER/git" GIT_WORK_TREE="$PWD"
git pack-objects -q --stdout <"$POLAR_FOLDER/oids" >"$POLAR_FOLDER/pack"
`

/** Prints the size of the patch. */
export const MAKE_PATCH = `${OPEN}
export GIT_DIR="$POLAR_FOLDER/git" GIT_WORK_TREE="$PWD"
git unpack-objects -q <"$POLAR_FOLDER/pack"
rm -f "$GIT_DIR/index"
git update-index -z --index-info <"$POLAR_FOLDER/base"
base=$(git write-tree --missing-ok)
git update-index --add --remove --replace -z --stdin <"$POLAR_FOLDER/paths"
git diff-index --cached -p --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv --ignore-submodules \\
  --src-prefix=a/ --dst-prefix=b/ --unified=3 --inter-hunk-context=0 --diff-algorithm=myers "$base" >"$POLAR_FOLDER/patch"
wc -c <"$POLAR_FOLDER/patch"
`

// Prints \`applied\` or \`refused\`. A patch was made where an agent ruled: it may touch only the names that were chosen. \`patch\` is the
// second way because it forgives context that moved, as Polar does; binary files need the first.
export const APPLY = `${OPEN}
export GIT_DIR="$POLAR_FOLDER/git" GIT_WORK_TREE="$PWD"
git apply --numstat -z "$POLAR_FOLDER/patch" >"$POLAR_FOLDER/touched" || { echo refused; exit 0; }
lines() { tr '\\0\\n' '\\n\\1' | LC_ALL=C sort -u; }
tr '\\0\\n' '\\n\\1' <"$POLAR_FOLDER/touched" | cut -f3- | LC_ALL=C sort -u >"$POLAR_FOLDER/touched.names"
lines <"$POLAR_FOLDER/allowed" >"$POLAR_FOLDER/allowed.names"
if [ -n "$(LC_ALL=C comm -23 "$POLAR_FOLDER/touched.names" "$POLAR_FOLDER/allowed.names")" ]; then echo refused; exit 0; fi
if git apply --whitespace=nowarn "$POLAR_FOLDER/patch" || patch -p1 --fuzz=5 --batch --forward --no-backup-if-mismatch -r - -i "$POLAR_FOLDER/patch" >&2; then
  echo applied
else
  echo refused
fi
`
