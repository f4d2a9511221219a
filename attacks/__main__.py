"""``python -m attacks [--short] [--only PATTERN] [--host granian]``: exit code 1 when anything got through."""

from __future__ import annotations

import argparse
import re
import sys

from .attempts import attempt, places
from .report import ATTACKS, HOSTS, Scale


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer and smaller, as the test suite runs them")
    parser.add_argument("--only", default="", metavar="PATTERN", help="those whose names match")
    parser.add_argument("--host", choices=HOSTS, help="one host only")
    options = parser.parse_args()
    scale = Scale(options.short)
    broken = 0
    for one in ATTACKS:
        if not re.search(options.only, one.title):
            continue
        for host in places(one):
            if options.host and one.face == "http" and host != options.host:
                continue
            outcome = attempt(one, host, scale)
            broken += not outcome.held
            print(outcome.line(), flush=True)
    print(f"{broken} attacks got through" if broken else "everything held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
