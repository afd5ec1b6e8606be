#!/usr/bin/env bash
# Install the Debian packages that this machine lacks; does nothing where all are there.
#
#   scripts/apt.sh runtime   libraries that vLLM loads
#   scripts/apt.sh           those, and what `make test` runs: make, compilers, Node
set -euo pipefail

missing=()
need() { # command, package
  command -v "$1" >/dev/null || missing+=("$2")
}

# ldconfig is not on every user's path.
PATH=$PATH:/sbin:/usr/sbin
ldconfig -p | grep -q 'libnuma\.so\.1' || missing+=(libnuma1)

if [[ ${1:-all} != runtime ]]; then
  need make make
  need g++ g++
  need cmake cmake
  need node nodejs
  need npm npm
  need python3 python3
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3-venv)
fi

if ((${#missing[@]} == 0)); then
  exit 0
fi
if [[ $(id -u) -ne 0 ]]; then
  echo "apt.sh: missing, and only root can install: ${missing[*]}" >&2
  exit 1
fi
echo "==> installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "${missing[@]}"
