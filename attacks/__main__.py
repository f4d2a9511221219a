"""``python -m attacks [--short] [--only PATTERN]``: exit code 1 when anything got through."""

from __future__ import annotations

import argparse
import re
import sys

from .attempts import attempt
from .report import ATTACKS, Scale


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m attacks", description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer and smaller, as the test suite runs them")
    parser.add_argument("--only", default="", metavar="PATTERN", help="those whose names match")
    options = parser.parse_args()
    scale = Scale(options.short)
    broken = 0
    for one in ATTACKS:
        if not re.search(options.only, one.title):
            continue
        outcome = attempt(one, scale)
        broken += not outcome.held
        print(outcome.line(), flush=True)
    print(f"{broken} attacks got through" if broken else "everything held")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
