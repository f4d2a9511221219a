#!/usr/bin/env bash
# Serve the quickstart and say what to try next.
set -euo pipefail
cd "$(dirname "$0")/.."
port=${PORT:-8000}
cat <<TEXT
Serving examples/quickstart.py on http://127.0.0.1:$port/mcp (every revision on the one URL; Ctrl-C ends it).
In another terminal, try:
  .venv/bin/dovetail list http://127.0.0.1:$port/mcp
  .venv/bin/dovetail call http://127.0.0.1:$port/mcp price city=Oslo
  .venv/bin/dovetail call http://127.0.0.1:$port/mcp book city=Lisbon
TEXT
exec .venv/bin/dovetail run examples/quickstart.py --http --port "$port"
