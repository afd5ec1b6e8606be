#!/usr/bin/env bash
# Resolve the dependencies of pyproject.toml and engine/pyproject.toml again and write requirements/*.lock.
#
# The CPU lock is the one that everything else agrees with: the gateway's and the tools' locks are
# resolved under it, so that they can be installed into the same environment.
set -euo pipefail
cd "$(dirname "$0")/.."

TOOLS=${TOOLS:-.bench/lock-tools}
UV=$TOOLS/bin/uv
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

if [[ ! -x $UV ]]; then
  echo "==> installing uv into $TOOLS"
  "${PYTHON:-python3}" -m venv "$TOOLS"
  "$TOOLS/bin/python" -m pip install --quiet --disable-pip-version-check uv
fi

# uv does not read pip's configuration; torch's CPU build may be where pip is configured to look.
find_links() {
  local link
  for link in ${PIP_FIND_LINKS:-$("${PYTHON:-python3}" -m pip config get global.find-links 2>/dev/null)}; do
    echo --find-links "$link"
  done
}
read -ra links <<<"$(find_links | tr '\n' ' ')"

compile() { # lock, option...
  local lock=$1
  shift
  echo "==> $lock"
  "$UV" pip compile --quiet --python-version 3.11 --no-emit-index-url --no-emit-find-links \
    --custom-compile-command 'make lock' --annotation-style line --output-file "$lock" "${links[@]}" "$@"
}

both=(pyproject.toml engine/pyproject.toml --no-emit-package specgate-engine)
cpu=(requirements/cpu.lock "${both[@]}" --extra cpu --override requirements/cpu.overrides)
compile "${cpu[@]}" || compile "${cpu[@]}" --extra-index-url "$TORCH_CPU_INDEX"
compile requirements/gateway.lock pyproject.toml --extra tracing --extra redis --extra postgres --constraint requirements/cpu.lock
compile requirements/train.lock engine/pyproject.toml --extra train --constraint requirements/cpu.lock --override requirements/train.overrides
compile requirements/dev.lock --group dev --constraint requirements/cpu.lock --constraint requirements/train.lock

# Without those links, since a CPU build of torch in one of them would satisfy torch==2.13.0 too.
links=()
compile requirements/gpu.lock "${both[@]}" --extra gpu --python-platform x86_64-manylinux_2_28
