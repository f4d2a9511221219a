#!/usr/bin/env bash
# usage: framework_envs.sh [NAME…] — install agent frameworks under .peers/framework-NAME; without a name, all of them.
# The names are those of requirements/frameworks/*.txt. Each environment has what Dovetail needs, but not Dovetail: the
# tests run it from the source tree (PYTHONPATH=src).
set -euo pipefail
cd "$(dirname "$0")/.."
quiet=--quiet
[ -t 1 ] && quiet=  # at a terminal, pip shows a bar for each download
if [ $# -eq 0 ]; then
  set -- requirements/frameworks/*.txt
  set -- "${@##*/}"
  set -- "${@%.txt}"
fi
mkdir -p .peers
for name in "$@"; do
  requirements="requirements/frameworks/$name.txt"
  environment=".peers/framework-$name"
  want=$(sha256sum "$requirements")
  [ "$(cat "$environment/.ready" 2>/dev/null || true)" = "$want" ] && continue
  echo "installing $name" >&2
  rm -rf "$environment"
  "$(readlink -f .venv/bin/python)" -m venv "$environment"
  "$environment/bin/python" -m pip install ${quiet:+"$quiet"} --disable-pip-version-check --no-deps --require-hashes -r "$requirements"
  printf '%s\n' "$want" >"$environment/.ready"
done
