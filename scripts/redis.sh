#!/usr/bin/env bash
# usage: redis.sh — see to it that redis-server is on this machine, from the distribution's own package.
# The tests start servers of their own on ports of their own; none of the system's is touched.
set -euo pipefail
command -v redis-server >/dev/null && exit 0
command -v apt-get >/dev/null || { echo "redis-server is missing: install it" >&2; exit 2; }
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
# Nobody asked for a service that listens from now on: policy-rc.d would be the machine's business, so stop it again.
"${as_root[@]}" apt-get install -y --no-install-recommends redis-server >/dev/null || {
  echo "redis-server is missing: apt-get install redis-server" >&2
  exit 2
}
command -v systemctl >/dev/null && "${as_root[@]}" systemctl disable --now redis-server >/dev/null 2>&1 || true
