#!/usr/bin/env bash
# usage: conformance.sh [server|client] [REVISION…] — run the official suite; see scripts/conformance.py.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/peers.sh node
exec .venv/bin/python scripts/conformance.py "$@"
