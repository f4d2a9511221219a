#!/usr/bin/env bash
# usage: setup.sh VENV PYTHON — make the environment, with every package pinned by hash.
set -euo pipefail
venv=$1 python=$2
"$python" -c "" 2>/dev/null || python=python3
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Dovetail needs Python 3.11 or newer; '$python' is older" >&2; exit 2; }
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pins=(-r requirements/dev.txt)
own=requirements/python$("$venv/bin/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt
[ ! -f "$own" ] || pins+=(-r "$own")
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes "${pins[@]}"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
