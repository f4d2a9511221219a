"""``python -m bench.interop``: run the matrix, print it, keep it in ``docs/interop.md``; 1 if anything failed."""

from __future__ import annotations

import argparse
import sys
from itertools import chain

from .. import peers
from . import matrix
from .features import Row

PAGE = peers.ROOT / "docs" / "interop.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.interop", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="only peers whose name contains this")
    parser.add_argument("--no-page", action="store_true", help="leave docs/interop.md alone")
    options = parser.parse_args()
    gone = [name for name in ("sdk", "fastmcp", "node") if not peers.installed(name)]
    if gone:
        print("\n".join(peers.missing(name) for name in gone), file=sys.stderr)
        return 1
    rows: list[Row] = []
    for row in chain(matrix.with_our_server(options.only), matrix.with_our_client(options.only)):
        rows.append(row)
        print(matrix.plain(row), flush=True)
    failures = [failure for row in rows for failure in row.failures()]
    print(f"\n{len(rows)} pairings, {len(failures)} failures")
    for failure in failures:
        print("  " + failure)
    if not options.only and not options.no_page:
        PAGE.write_text(matrix.markdown(rows))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
