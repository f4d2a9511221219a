#!/usr/bin/env bash
# usage: peers.sh NAME… — install other implementations of the protocol under .peers/NAME.
#   sdk       the official Python SDK        fastmcp   FastMCP 4
#   dovetail  Dovetail with the packages of its extra http alone, for the measurement of starts
#   minimcp   MiniMCP with the SDK it needs  node      TypeScript client, Inspector, server-everything, the
#                                                      conformance suite, Pyodide, and Node 22 where the machine's is older
#   modal     the library of Modal           pyodide   msgspec for Pyodide, as pip unpacks it
set -euo pipefail
cd "$(dirname "$0")/.."
quiet=--quiet
[ -t 1 ] && quiet=  # at a terminal, pip shows a bar for each download
mkdir -p .peers
for name in "$@"; do
  if [ "$name" = node ]; then
    want=$(cat scripts/node/package.json)
    if [ "$(cat .peers/node/.ready 2>/dev/null || true)" != "$want" ]; then
      command -v npm >/dev/null || { echo "npm is missing: apt-get install npm" >&2; exit 2; }
      mkdir -p .peers/node && cp scripts/node/package.json .peers/node/
      (cd .peers/node && npm install ${quiet:+--silent} --no-audit --no-fund --no-package-lock)
      printf '%s\n' "$want" >.peers/node/.ready
    fi
    continue
  fi
  want=$(sha256sum "requirements/peers/$name.txt")
  [ "$(cat ".peers/$name/.ready" 2>/dev/null || true)" = "$want" ] && continue
  echo "installing $name" >&2
  rm -rf ".peers/$name"
  if [ "$name" = pyodide ]; then
    "$(readlink -f .venv/bin/python)" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
      --only-binary :all: --platform pyemscripten_2026_0_wasm32 --python-version 3.14 --target ".peers/$name" -r "requirements/peers/$name.txt"
    printf '%s\n' "$want" >".peers/$name/.ready"
    continue
  fi
  "$(readlink -f .venv/bin/python)" -m venv ".peers/$name"
  ".peers/$name/bin/python" -m pip install ${quiet:+"$quiet"} --disable-pip-version-check --no-deps --require-hashes -r "requirements/peers/$name.txt"
  if [ "$name" = dovetail ]; then  # the source tree, as an installed package
    echo "$PWD/src" >"$(.peers/dovetail/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dovetail.pth"
  fi
  printf '%s\n' "$want" >".peers/$name/.ready"
done
