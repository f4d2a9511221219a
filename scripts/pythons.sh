#!/usr/bin/env bash
# usage: pythons.sh [VERSION…] — the test suite on each Python we support, in an environment of its own; one that is
# not on this machine is named and left out. Fails if the suite fails on any, or if none was found.
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 3.11 3.12 3.13 3.14

# A name on the path may be pyenv's stand-in for an interpreter that is not switched on: only what runs counts.
interpreter() {
  for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
    if "$candidate" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
      "$candidate" -c 'import sys; print(sys.executable)'
      return
    fi
  done
  return 1
}

tested=() failed=() missing=()
for version in "$@"; do
  if ! python=$(interpreter "$version"); then
    missing+=("$version")
    continue
  fi
  echo "== Python $version ($("$python" -V))"
  tested+=("$version")
  scripts/setup.sh ".venv-$version" "$python" &&
    ".venv-$version/bin/python" -m pytest -n 2 --dist loadfile || failed+=("$version")
done
echo "tested: ${tested[*]:-none}; failed: ${failed[*]:-none}; not on this machine: ${missing[*]:-none}"
[ ${#tested[@]} -gt 0 ] && [ ${#failed[@]} -eq 0 ]
