#!/usr/bin/env bash
# Install what is locked into .venv, and the project itself; a second run with the same locks and
# the same C++ sources does nothing and needs no network.
#
#   scripts/install.sh gateway   the gateway alone
#   scripts/install.sh engine    gateway and engine for CPUs
#   scripts/install.sh gpu       gateway and engine for CUDA
#   scripts/install.sh train     engine for CPUs, and what `specgate train` needs beside it
#   scripts/install.sh dev       engine for CPUs, and the tools of `make check` and `make test`
#   scripts/install.sh dependencies TARGET   the locked packages of one of these, without the project itself
#   scripts/install.sh node      the Node SDKs that the end-to-end tests use
#   scripts/install.sh helm      helm, for the tests of the chart
#   scripts/install.sh prometheus   Prometheus and promtool, for the tests of dashboards and alerts
#   scripts/install.sh redis     redis-server, for the tests of limits that replicas share
#   scripts/install.sh postgres  PostgreSQL, for the tests of responses that replicas share
#   scripts/install.sh chromium  Chromium, for the tests of the page
#   scripts/install.sh triton    Triton, for the tests of vLLM's V2 runner on CPUs
#
# PYTHON names the interpreter (3.11 or later), VENV the folder to install into.
#
# Everything is installed with --no-deps from a complete lock, so no package can bring another one
# along: a bare `torch` requirement would pull in several GB of CUDA libraries.
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=${VENV:-.venv}
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu
NODE_TESTS=tests/e2e/node
HELM_PACKAGE=helm/tools

say() { echo "==> $*"; }

fingerprint() { cat "$@" | sha256sum | cut -d' ' -f1; }

pip() {
  "$VENV/bin/python" -m pip --disable-pip-version-check --no-input "$@"
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  echo "install.sh: no Python 3.11 or later found; name one with PYTHON=..." >&2
  return 1
}

ensure_venv() {
  local python
  if [[ ! -x $VENV/bin/python ]]; then
    python=$(find_python)
    say "creating $VENV with $("$python" --version)"
    "$python" -m venv "$VENV"
  fi
}

# The CPU build from pip's configured index if it has one, otherwise from PyTorch.
install_torch_cpu() {
  local torch
  torch=$(grep -oE '^torch==[^ ]+' requirements/cpu.lock)
  say "installing $torch"
  if ! pip install --no-deps "$torch"; then
    say "not where pip looks; taking it from $TORCH_CPU_INDEX"
    pip install --no-deps --index-url "$TORCH_CPU_INDEX" "$torch"
  fi
}

# Turns pip's output on stdin into a progress count; errors pass through. Argument: the total.
show_progress() {
  awk -v total="$1" -v terminal="$([[ -t 1 ]] && echo 1 || echo 0)" '
    /^(Collecting|Processing) / {
      seen++
      if (terminal) printf "\r    %d of %d  %-50.50s", seen, total, $2
      else if (seen % 25 == 0) printf "    %d of %d\n", seen, total
    }
    /^Installing collected packages/ {
      if (terminal) printf "\r%-70s\r", ""
      printf "    %d found, unpacking them takes up to a minute\n", seen
    }
    /^ *(ERROR|error)/ { print }
    { fflush() }
  '
}

install_locked() { # lock...
  local lock count
  for lock in "$@"; do
    count=$(grep -cE '^[a-z0-9]' "$lock")
    say "installing $count packages of $lock"
    pip install --progress-bar off --no-deps --requirement "$lock" 2>&1 | show_progress "$count"
  done
}

# Editable installs: Python sources are used in place, engine._core is compiled now. Where the build
# tools are installed (target dev) they are used, so that only what changed is compiled again.
install_project() { # folder, what it is made of...
  local folder=$1 stamp=$VENV/.specgate-project-${1//[^a-z]/} mark isolation=()
  shift
  mark=$(fingerprint "$@" scripts/install.sh)
  if [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    return
  fi
  say "installing ${folder/#./specgate}"
  [[ -e $VENV/.specgate-dev ]] && isolation=(--no-build-isolation)
  PATH=$(realpath "$VENV")/bin:$PATH \
    PIP_CONSTRAINT=requirements/dev.lock PIP_BUILD_CONSTRAINT=requirements/dev.lock \
    pip install --quiet --no-deps "${isolation[@]}" --editable "$folder"
  echo "$mark" >"$stamp"
}

install_gateway() { install_project . pyproject.toml; }

install_engine() {
  PYTHON=$VENV/bin/python scripts/apt.sh build
  install_project ./engine engine/{pyproject.toml,CMakeLists.txt,hatch_build.py} \
    engine/_core/* engine/*/core/*
}

install_dependencies() { # target, lock...
  local target=$1 stamp mark
  shift
  stamp=$VENV/.specgate-$target
  mark=$(fingerprint scripts/install.sh "$@")
  if [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    return
  fi
  case $target in engine | train | dev) scripts/apt.sh runtime ;; gpu) scripts/apt.sh cuda ;; esac
  case $target in engine | train | dev) install_torch_cpu ;; esac
  install_locked "$@"
  echo "$mark" >"$stamp"
}

install_node() {
  local stamp=$NODE_TESTS/node_modules/.specgate mark
  mark=$(fingerprint "$NODE_TESTS/package-lock.json")
  if [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    return
  fi
  say "installing the Node SDKs"
  npm ci --prefix "$NODE_TESTS" --no-audit --no-fund
  echo "$mark" >"$stamp"
}

# The binary is part of an npm package, for x86_64 Linux only.
install_helm() {
  local stamp=$VENV/.specgate-helm mark folder
  mark=$(fingerprint "$HELM_PACKAGE/package-lock.json")
  if [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    return
  fi
  if [[ $(uname -sm) != "Linux x86_64" ]]; then
    say "helm is not in the registry for $(uname -sm): install it by hand to run the chart's tests"
    return
  fi
  ensure_venv
  say "installing helm"
  folder=$(mktemp -d)
  cp "$HELM_PACKAGE"/package*.json "$folder"
  # The binary needs none of the package's peer dependencies.
  npm ci --prefix "$folder" --legacy-peer-deps --no-audit --no-fund
  "$VENV/bin/python" -m zipfile -e "$folder"/node_modules/@aws-cdk/*/lib/layer.zip "$folder/layer"
  install -m 755 "$folder/layer/helm/helm" "$VENV/bin/helm"
  rm -r "$folder"
  echo "$mark" >"$stamp"
}

# Unpacks packages of Debian, without root; installing them would start servers. A name that begins with
# ^ is a pattern, and stands for the newest package that it matches; one that begins with + stands for the
# package and all that it needs and this machine lacks.
unpack_debian() { # folder, package...
  local folder=$1 lists package packages=() needed
  shift
  if ! command -v apt-get >/dev/null; then
    return 1
  fi
  mkdir -p "$folder"
  lists=$(realpath "$folder")/lists
  mkdir -p "$lists/partial"
  apt-get -o Dir::State::Lists="$lists" update --quiet=2
  for package in "$@"; do
    if [[ $package == ^* ]]; then
      package=$(apt-cache -o Dir::State::Lists="$lists" -o Dir::Cache="$lists" search --names-only "$package" |
        cut -d' ' -f1 | sort -V | tail -1)
    elif [[ $package == +* ]]; then
      # A line of an upgrade has the old version in brackets: what is installed is left as it is.
      needed=$(apt-get -o Dir::State::Lists="$lists" -o Dir::Cache="$lists" --simulate --no-install-recommends \
        install "${package#+}" | awk '$1 == "Inst" && $3 !~ /^\[/ { print $2 }')
      mapfile -t -O "${#packages[@]}" packages <<<"$needed"
      continue
    fi
    packages+=("$package")
  done
  (cd "$folder" && apt-get -o Dir::State::Lists="$lists" download --quiet=2 "${packages[@]}")
  for package in "$folder"/*.deb; do
    dpkg-deb --extract "$package" "$folder"
  done
  rm -r "$lists" "$folder"/*.deb
}

install_prometheus() {
  if command -v promtool >/dev/null && command -v prometheus >/dev/null; then
    return
  fi
  if [[ -x $VENV/bin/promtool && -x $VENV/bin/prometheus ]]; then
    return
  fi
  ensure_venv
  say "fetching Prometheus from Debian"
  if ! unpack_debian "$VENV/prometheus" prometheus; then
    echo "Missing: prometheus and promtool. Put them on PATH: https://prometheus.io/download" >&2
    exit 1
  fi
  ln -sf ../prometheus/usr/bin/{prometheus,promtool} "$VENV/bin/"
}

install_redis() {
  if command -v redis-server >/dev/null || [[ -x $VENV/bin/redis-server ]]; then
    return
  fi
  ensure_venv
  say "fetching redis-server from Debian"
  # Debian keeps the program itself in redis-tools.
  if ! unpack_debian "$VENV/redis" redis-server redis-tools libjemalloc2 liblzf1; then
    say "no apt-get: the tests that need redis-server are skipped until it is on PATH"
    return
  fi
  # shellcheck disable=SC2016  # expanded when it runs
  printf '%s\n' '#!/bin/sh' 'folder=$(dirname "$(realpath "$0")")/../redis/usr' \
    'LD_LIBRARY_PATH=$(echo "$folder"/lib/*-linux-gnu) exec "$folder/bin/redis-server" "$@"' \
    >"$VENV/bin/redis-server"
  chmod 755 "$VENV/bin/redis-server"
}

# The tests look for its programs in Debian's folder and below $VENV/postgres.
install_postgres() {
  if command -v initdb >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
    return
  fi
  if compgen -G "$VENV/postgres/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
    return
  fi
  ensure_venv
  say "fetching PostgreSQL from Debian"
  if ! unpack_debian "$VENV/postgres" '^postgresql-[0-9]+$' libpq5 '^libicu[0-9]+$' \
    libxml2 '^libldap-?[0-9.]+(-[0-9]+)?$' libsasl2-2; then
    say "no apt-get: the tests that need PostgreSQL are skipped until initdb is on PATH"
  fi
}

# The tests take a Chromium on PATH, or this one.
install_chromium() {
  local program=$VENV/chromium/usr/lib/chromium/chromium
  if command -v chromium >/dev/null || [[ -x $VENV/bin/chromium ]]; then
    return
  fi
  ensure_venv
  say "fetching Chromium from Debian"
  if ! unpack_debian "$VENV/chromium" +chromium || [[ ! -x $program ]]; then
    say "not in this system's packages: the tests of the page are skipped until chromium is on PATH"
    return
  fi
  # shellcheck disable=SC2016  # expanded when it runs
  printf '%s\n' '#!/bin/sh' 'folder=$(dirname "$(realpath "$0")")/../chromium' \
    'LD_LIBRARY_PATH=$(printf %s: "$folder"/usr/lib/*-linux-gnu "$folder"/usr/lib/*-linux-gnu/pulseaudio "$folder"/lib/*-linux-gnu)' \
    '[ -e /etc/fonts/fonts.conf ] || export FONTCONFIG_SYSROOT="$folder"' \
    'export LD_LIBRARY_PATH' 'exec "$folder/usr/lib/chromium/chromium" "$@"' \
    >"$VENV/bin/chromium"
  chmod 755 "$VENV/bin/chromium"
}

# Beside the environment's packages: vLLM chooses other code where it can import Triton.
install_triton() {
  local stamp=$VENV/triton/.specgate mark
  mark=$(fingerprint requirements/triton.txt)
  if [[ -f $stamp && $(<"$stamp") == "$mark" ]]; then
    return
  fi
  if [[ $(uname -sm) != "Linux x86_64" ]]; then
    say "Triton is not in the registry for $(uname -sm): the tests of vLLM's V2 runner are skipped"
    return
  fi
  ensure_venv
  say "installing Triton, which vLLM's V2 runner needs"
  rm -rf "$VENV/triton"
  pip install --progress-bar off --quiet --no-deps --no-compile --target "$VENV/triton" --requirement requirements/triton.txt
  echo "$mark" >"$stamp"
}

locks_of() { # target
  case $1 in
    gateway) echo requirements/gateway.lock ;;
    engine) echo requirements/cpu.lock ;;
    gpu) echo requirements/gpu.lock ;;
    train) echo requirements/{cpu,train}.lock ;;
    dev) echo requirements/{cpu,train,dev}.lock ;;
  esac
}

install_python() { # target
  ensure_venv
  # shellcheck disable=SC2046  # a list
  install_dependencies "$1" $(locks_of "$1")
  install_gateway
  if [[ $1 != gateway ]]; then
    install_engine
  fi
}

case ${1:-} in
  gateway | engine | gpu | train | dev) install_python "$1" ;;
  dependencies)
    ensure_venv
    # shellcheck disable=SC2046  # a list
    install_dependencies "$2" $(locks_of "$2")
    ;;
  node) install_node ;;
  helm) install_helm ;;
  prometheus) install_prometheus ;;
  redis) install_redis ;;
  postgres) install_postgres ;;
  chromium) install_chromium ;;
  triton) install_triton ;;
  *)
    echo "usage: scripts/install.sh gateway|engine|gpu|train|dev|node|helm|prometheus|redis|postgres|chromium|triton, or dependencies TARGET" >&2
    exit 2
    ;;
esac
