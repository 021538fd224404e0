# Sourced by run, test, check and bench: finds the tools, makes .venv and node_modules, or names what to install.
# It installs only if pyproject.toml or a lock file has changed since the last time; for make run only what that needs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The environment of headrace and its tools; scripts/test --python has another folder for each version.
VENV=.venv

# Keep bytecode, whatever the shell's settings: without it each test worker and each cloud compiles everything again.
unset PYTHONDONTWRITEBYTECODE

# Also stop on Ctrl-C if an installer handles it and continues.
trap 'exit 130' INT

die() { printf 'headrace: %s\n' "$1" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null 2>&1 &&
       "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"; return
    fi
  done
  die "Python 3.11 or newer is needed; install it (Debian: apt-get install python3 python3-venv) or set PYTHON."
}

# python_of VERSION: prints the path of an interpreter of exactly that version (3.13), from PATH, pyenv or uv.
python_of() {
  local candidate
  for candidate in "python$1" \
      "${PYENV_ROOT:-${HOME:-}/.pyenv}"/versions/"$1"*/bin/"python$1" \
      "${XDG_DATA_HOME:-${HOME:-}/.local/share}"/uv/python/cpython-"$1".*/bin/"python$1"; do
    # pyenv has shims for versions that are not installed.
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c '' >/dev/null 2>&1; then
      command -v "$candidate"; return
    fi
  done
  die "Python $1 is not on this machine; install it (pyenv install $1, or uv python install $1) and run this again."
}

# python_version INTERPRETER: prints 3.13.
python_version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])'; }

need_java() {
  local java="${JAVA_HOME:+$JAVA_HOME/bin/}java" version
  command -v "$java" >/dev/null 2>&1 ||
    die "Java 17 or newer is needed for Spark; install it (Debian: apt-get install openjdk-17-jre-headless)."
  version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
  [ "${version:-0}" -ge 17 ] ||
    die "Java 17 or newer is needed for Spark, not Java ${version:-of an unknown version}; install it (Debian: apt-get install openjdk-17-jre-headless)."
}

# need_node [PURPOSE]
need_node() {
  local purpose="${1:-the CDK CLI}"
  command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 ||
    die "Node.js 20 or newer with npm is needed for $purpose; install it from your system's packages."
  local major
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] ||
    die "Node.js 20 or newer is needed for $purpose, not Node.js $major; install a newer one."
}

# what_to_try LOG: prints advice, chosen by the installer's output.
what_to_try() {
  local printed
  printed=$(cat "$1")
  shopt -s nocasematch
  case "$printed" in
    *"no space left"*|*ENOSPC*)
      printf 'there is no space left on the disk: free some, and run this again.' ;;
    *EACCES*|*EPERM*|*"permission denied"*)
      printf 'a file there belongs to somebody else, maybe since an earlier run as root: make this folder yours again.' ;;
    *"no module named pip"*|*ensurepip*)
      printf 'the environment is incomplete: remove %s, and run this again (Debian: apt-get install python3-venv).' "$VENV" ;;
    *ENOTFOUND*|*EAI_AGAIN*|*ETIMEDOUT*|*ECONNREFUSED*|*ECONNRESET*|*"name resolution"*|*"connection error"*|\
    *"timed out"*|*"max retries"*|*unreachable*|*proxy*|*certificate*|*"could not find a version"*)
      printf 'the registry cannot be reached, or lacks a package: see "pip config list", "npm config get registry" and HTTPS_PROXY; run this again.' ;;
    *)
      printf 'run the command by hand; or remove %s, cdk/node_modules and tests/clients/js/node_modules, and run this again.' "$VENV" ;;
  esac
  shopt -u nocasematch
}

# is_installed STAMP SOURCES...
is_installed() { [ -f "$1" ] && [ "$(cat "$1")" = "$(cat "${@:2}" | cksum)" ]; }

# install STAMP SOURCES... -- COMMAND...: runs COMMAND unless it ran before with the same SOURCES.
# Its output goes to a log, and is shown only if it fails.
install() {
  local stamp="$1" sum; shift
  local sources=()
  while [ "$1" != "--" ]; do sources+=("$1"); shift; done
  shift
  if is_installed "$stamp" "${sources[@]}"; then return; fi
  sum=$(cat "${sources[@]}" | cksum)
  local log="$stamp.log" code=0
  { : > "$log"; } 2>/dev/null || die "nothing can be written to $(dirname "$stamp"): make this folder yours, and run this again."
  "$@" > "$log" 2>&1 || code=$?
  if [ "$code" -ne 0 ]; then
    printf 'headrace: this command failed: %s\n' "$*" >&2
    sed -e '/^WARNING: /d' -e '/^npm warn/d' -e 's/^/  | /' "$log" | tail -n 25 >&2
    printf 'headrace: exit code %s, its whole output is in %s; what to try: %s\n' "$code" "$log" "$(what_to_try "$log")" >&2
    exit 1
  fi
  rm -f "$log"
  printf '%s\n' "$sum" > "$stamp"
}

# setup_python [INTERPRETER]: with the tools of the tests.
setup_python() {
  make_venv "${1:-}"
  install_python "$VENV/.headrace" spark,pipeline,dev,bench
}

# make_venv [INTERPRETER]
make_venv() {
  local python
  if [ ! -x "$VENV/bin/python" ]; then
    python="${1:-$(find_python)}"
    "$python" -m venv "$VENV" || die "Python's venv module is needed; install it (Debian: apt-get install python3-venv)."
  fi
}

# install_python STAMPS EXTRAS
install_python() {
  # Python compiles what is imported, at the first import: a third of what pip would compile, in a minute.
  install "$1-installed" pyproject.toml -- \
    "$VENV/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -e ".[$2]"
  # pip names the packages that pin an older botocore, and succeeds; see the file.
  install "$1-newest" pyproject.toml requirements/newest.txt -- \
    "$VENV/bin/python" -m pip install --quiet --no-compile --disable-pip-version-check -r requirements/newest.txt
  export PATH="$PWD/$VENV/bin:$PATH"
}

# With the lowest allowed versions of the dependencies, and the other packages of the core's tests.
setup_lowest() {
  VENV=.venv-lowest
  [ -x "$VENV/bin/python" ] || "$(python_of 3.11)" -m venv "$VENV" ||
    die "Python's venv module is needed; install it (Debian: apt-get install python3-venv)."
  install "$VENV/.headrace-installed" pyproject.toml requirements/lowest.txt -- \
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check \
    -r requirements/lowest.txt -e ".[parquet,testing,sam]" "pytest>=8.4,<9" "pytest-xdist>=3.8,<4"
  export PATH="$PWD/$VENV/bin:$PATH"
}

setup_cdk() {
  install cdk/.headrace-installed cdk/package-lock.json -- \
    npm ci --prefix cdk --no-audit --no-fund --loglevel=error
}

setup_node() {
  setup_cdk
  install tests/clients/js/.headrace-installed tests/clients/js/package-lock.json -- \
    npm ci --prefix tests/clients/js --no-audit --no-fund --loglevel=error
}

# setup: everything; npm's packages come beside pip's.
setup() {
  need_java; need_node
  both setup_node setup_python
}

# setup_run: what make run needs; make test adds the rest, three fifths of it.
setup_run() {
  need_java; need_node
  both setup_cdk setup_python_for_run
}

setup_python_for_run() {
  local stamps="$VENV/.headrace" packing
  make_venv
  # What the Spark step brings along is packed beside; if that fails, the synthesis of the app does it, and says why.
  "$VENV/bin/python" -m cdk.parts.python_packages > /dev/null 2>&1 &
  packing=$!
  is_installed "$stamps-installed" pyproject.toml || stamps="$VENV/.headrace-run"
  install_python "$stamps" spark,pipeline
  wait "$packing" || true
}

# both NODE PYTHON: runs the first function beside the second one.
both() {
  local node
  "$1" &
  node=$!
  "$2"
  wait "$node"
}
