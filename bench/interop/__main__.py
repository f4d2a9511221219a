"""``python -m bench.interop``: run the matrix, print it, keep it in ``docs/interop.md``; 1 if anything failed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeVar

from .. import peers
from . import bridged, matrix
from .features import Row

T = TypeVar("T")
PAGE = peers.ROOT / "docs" / "interop.md"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.interop", description=__doc__)
    parser.add_argument("--only", default="", metavar="NAME", help="only peers whose name contains this")
    parser.add_argument("--no-page", action="store_true", help="leave docs/interop.md alone")
    parser.add_argument("--bridge", action="store_true", help="only what goes through a bridge")
    options = parser.parse_args()
    gone = [name for name in ("sdk", "fastmcp", "node") if not peers.installed(name)]
    if gone:
        print("\n".join(peers.missing(name) for name in gone), file=sys.stderr)
        return 1
    rows: list[Row] = []
    cells: list[bridged.Cell] = []
    if not options.bridge:
        direct = chain(matrix.with_our_server(options.only), matrix.with_our_client(options.only))
        rows += shown(direct, matrix.plain)
    rows += shown(bridged.with_peers(options.only), matrix.plain)
    cells += shown(bridged.pairs(options.only), bridged.plain)
    failures = [failure for one in (*rows, *cells) for failure in one.failures()]
    print(f"\n{len(rows) + len(cells)} pairings, {len(failures)} failures")
    for failure in failures:
        print("  " + failure)
    if not options.only and not options.bridge and not options.no_page:
        PAGE.write_text(matrix.markdown(rows, bridged.markdown(cells)))
    return 1 if failures else 0


def shown(found: Iterable[T], plain: Callable[[T], str]) -> list[T]:
    """All of them, each printed when it is there."""
    kept: list[T] = []
    for one in found:
        kept.append(one)
        print(plain(one), flush=True)
    return kept


if __name__ == "__main__":
    sys.exit(main())
