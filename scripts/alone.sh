#!/usr/bin/env bash
# usage: alone.sh FILE — run the tests named in FILE once more, one after the other with nothing beside them.
# At most three: a machine that others use too may starve a test or two of thirteen thousand. What fails alone is broken,
# and what passes only alone is named here and needs mending all the same.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -s "$1" ] || { echo "the run did not come to its end" >&2; exit 1; }
[ "$(wc -l <"$1")" -le 3 ] || exit 1
echo "failed beside others, once more alone:"
cat "$1"
.venv/bin/python -m pytest "@$1"
