#!/usr/bin/env bash
# Install the Debian packages that this machine lacks; does nothing where all are there.
#
#   scripts/apt.sh runtime   libraries that vLLM loads
#   scripts/apt.sh cuda      these, and the C compiler that Triton makes its launchers with
#   scripts/apt.sh build     what the C++ core is built with; pip brings CMake where it is missing
#   scripts/apt.sh           both, and what `make test` runs: make, CMake, Node, Prometheus
set -euo pipefail

missing=()
need() { # command, package
  command -v "$1" >/dev/null || missing+=("$2")
}

# Debian's own Python comes without the headers that an extension needs; others have them.
has_headers() {
  "${PYTHON:-python3}" -c '
import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' 2>/dev/null
}

what=${1:-all}

if [[ $what != build ]]; then
  # ldconfig is not on every user's path.
  PATH=$PATH:/sbin:/usr/sbin
  ldconfig -p | grep -q 'libnuma\.so\.1' || missing+=(libnuma1)
fi

if [[ $what == cuda ]]; then
  need cc gcc
  [[ -e /usr/include/stdlib.h ]] || missing+=(libc6-dev)
  has_headers || missing+=(python3-dev)
fi

if [[ $what != runtime && $what != cuda ]]; then
  need c++ g++
  has_headers || missing+=(python3-dev)
fi

if [[ $what == all ]]; then
  need make make
  need cmake cmake
  need node nodejs
  need npm npm
  need prometheus prometheus
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
