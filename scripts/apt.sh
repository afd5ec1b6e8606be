#!/usr/bin/env bash
# Install the Debian packages that a target needs and this machine lacks.
#
#   scripts/apt.sh runtime   libraries that vLLM loads
#   scripts/apt.sh cuda      these, and the C compiler that Triton calls on GPUs
#   scripts/apt.sh build     what engine._core is compiled with; pip brings CMake
#   scripts/apt.sh test      all that `make check` and `make test` need
#
# Does nothing if all are installed. Only root can install; others get a message.
set -euo pipefail

missing=()
need() { # command, package
  command -v "$1" >/dev/null || missing+=("$2")
}

# Debian's Python lacks the headers that an extension needs; other builds include them.
has_headers() {
  "${PYTHON:-python3}" -c '
import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' 2>/dev/null
}

has_venv() { "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null; }

need_libraries() {
  PATH=$PATH:/sbin:/usr/sbin ldconfig -p | grep -q 'libnuma\.so\.1' || missing+=(libnuma1)
}

need_compiler() {
  need c++ g++
  has_headers || missing+=(python3-dev)
}

case ${1:-} in
  runtime) need_libraries ;;
  cuda)
    need_libraries
    need cc gcc
    [[ -e /usr/include/stdlib.h ]] || missing+=(libc6-dev)
    has_headers || missing+=(python3-dev)
    ;;
  build) need_compiler ;;
  test)
    need_libraries
    need_compiler
    has_venv || missing+=(python3-venv)
    need node nodejs
    need npm npm
    ;;
  *)
    echo "usage: scripts/apt.sh runtime|cuda|build|test" >&2
    exit 2
    ;;
esac

if ((${#missing[@]} == 0)); then
  exit 0
fi
if ! command -v apt-get >/dev/null; then
  echo "Missing: ${missing[*]} (Debian's names). Install them with this system's package manager." >&2
  exit 1
fi
if [[ $(id -u) -ne 0 ]]; then
  echo "Missing: ${missing[*]}. Install them with: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "==> installing ${missing[*]} from Debian"
export DEBIAN_FRONTEND=noninteractive
apt-get update --quiet=2
apt-get install --quiet=2 --yes --no-install-recommends "${missing[@]}" >/dev/null
