# Sourced by demo, test and check. `prepare light` or `prepare full` makes .venv, or finds it made.
#
#   light   gapless, and what its demo trains with         (demo)
#   full    and what tests and checks need, torch included (test, check)
#
# A stamp in .venv says what was installed from which pyproject.toml and constraints.txt, so that
# the next run neither asks the network nor waits. pip's own configuration is honoured.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$root"
venv=$root/.venv
lock=$root/.venv.lock

say() { printf '%s\n' "$*" >&2; }
die() { say "$@"; exit 2; }

# Print the first interpreter that is new enough.
find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  die "gapless needs Python 3.11 or newer; found: $(python3 --version 2>&1 || echo none)." \
    "Install one, or name it: PYTHON=/path/to/python3.12 $0"
}

# Print what distinguishes one environment from another: its inputs, and where it lies.
fingerprint() {
  "$1" - "$venv" pyproject.toml constraints.txt scripts/environment.sh <<'PY'
import hashlib, pathlib, sys
digest = hashlib.sha256(sys.argv[1].encode())
for name in sys.argv[2:]:
    digest.update(pathlib.Path(name).read_bytes())
print(digest.hexdigest()[:16])
PY
}

works() { "$venv/bin/python" -c 'import gapless.errors, pip' 2>/dev/null; }

# Two scripts started together: the second waits for the first. A lock whose owner is gone is what
# an interrupted installation leaves behind, so the environment is made anew.
take_lock() {
  local owner waited=0
  until mkdir "$lock" 2>/dev/null; do
    owner=$(cat "$lock/pid" 2>/dev/null || true)
    if [ -n "$owner" ] && kill -0 "$owner" 2>/dev/null; then
      [ "$waited" -gt 0 ] || say "waiting for process $owner, which is installing …"
    elif [ "$waited" -gt 1 ]; then
      say "an installation was interrupted: making .venv anew"
      rm -rf "$venv" "$lock"
    fi
    waited=$((waited + 1))
    sleep 1
  done
  echo $$ >"$lock/pid"
}

make_venv() {
  local python=$1
  rm -rf "$venv"
  if "$python" -c 'import ensurepip' 2>/dev/null; then
    "$python" -m venv "$venv"
  elif "$python" -m pip --version >/dev/null 2>&1; then # Debian parts venv from ensurepip
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install --quiet pip
  else
    die "$python can make no virtual environment: it has neither ensurepip nor pip." \
      "On Debian and Ubuntu: apt install python3-venv"
  fi
}

install() {
  local pip=("$venv/bin/python" -m pip install --quiet --disable-pip-version-check -c constraints.txt)
  "${pip[@]}" --upgrade pip
  pip+=(--build-constraint constraints.txt)
  case $1 in
    light) "${pip[@]}" -e '.[demo]' torch==2.13.0 ;;
    full) "${pip[@]}" -e '.[all]' --group check --group docs torch==2.13.0 ;;
  esac
}

prepare() {
  local tier=$1 python stamp
  python=$(find_python)
  stamp=$(fingerprint "$python")
  if ! is_ready "$tier" "$stamp"; then
    take_lock
    if ! is_ready "$tier" "$stamp"; then # not even now that the other script is done
      say "preparing .venv ($tier), once …"
      "$venv/bin/python" -m pip --version >/dev/null 2>&1 || make_venv "$python"
      rm -f "$venv/gapless.stamp"
      install "$tier"
      works || die "the environment in $venv does not work; remove it and try again"
      echo "$tier $stamp" >"$venv/gapless.stamp"
    fi
    rm -rf "$lock"
  fi
  export PATH="$venv/bin:$PATH"
}

is_ready() {
  local stamped
  stamped=$(cat "$venv/gapless.stamp" 2>/dev/null) || return 1
  [ "$stamped" = "full $2" ] || [ "$stamped" = "$1 $2" ] || return 1
  works
}
