#!/usr/bin/env bash
# Pin what requirements/*.in, requirements/peers/*.in and requirements/frameworks/*.in ask for; no index lines are written.
set -euo pipefail
cd "$(dirname "$0")/.."
for source in requirements/*.in requirements/peers/*.in requirements/frameworks/*.in; do
  .venv/bin/pip-compile --quiet --strip-extras --allow-unsafe --generate-hashes --no-header \
    --no-emit-index-url --no-emit-trusted-host --no-emit-find-links \
    --output-file "${source%.in}.txt" "$source"
done
