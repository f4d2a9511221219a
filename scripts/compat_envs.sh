#!/usr/bin/env bash
# usage: compat_envs.sh [NAME…] — install the original libraries under .peers/compat-NAME; without a name, all of them.
#   fastmcp2   FastMCP 2.14      mcp1   the official SDK 1.30
#   fastmcp3   FastMCP 3.4       mcp2   the official SDK 2.3
#   fastmcp4   FastMCP 4.1
# Each environment has what Dovetail needs, but not Dovetail: the tests run it from the source tree (PYTHONPATH=src).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- fastmcp2 fastmcp3 fastmcp4 mcp1 mcp2
exec scripts/peers.sh "${@/#/compat-}"
