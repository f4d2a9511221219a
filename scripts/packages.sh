#!/usr/bin/env bash
# usage: packages.sh COMMAND… — see to it that these commands are on this machine, from the distribution's packages of
# the same names. The tests start processes of their own on ports of their own; no service of the system is touched.
set -euo pipefail
missing=()
for command in "$@"; do
  command -v "$command" >/dev/null || missing+=("$command")
done
[ ${#missing[@]} -gt 0 ] || exit 0
command -v apt-get >/dev/null || { echo "missing, and there is no apt-get: ${missing[*]}" >&2; exit 2; }
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo -n)
export DEBIAN_FRONTEND=noninteractive
install=("${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}")
# A machine that was never updated knows no packages.
"${install[@]}" >/dev/null 2>&1 || { "${as_root[@]}" apt-get update -qq && "${install[@]}" >/dev/null; } || {
  echo "apt-get could not install: ${missing[*]}" >&2
  exit 2
}
# Nobody asked for a service that listens from now on.
for service in redis-server prometheus nginx; do
  if command -v systemctl >/dev/null && [[ " ${missing[*]} " == *" $service "* ]]; then
    "${as_root[@]}" systemctl disable --now "$service" >/dev/null 2>&1 || true
  fi
done
