#!/usr/bin/env bash
# Run README's commands as on a bare machine, and print minutes and peak memory of each.
#
#   scripts/bare.sh [serve|test|check|test-all]...    without arguments: serve test
#
# HEAD is cloned to a new folder. The environment has the system's PATH and this Python, a new HOME
# without caches, no Prometheus, and of pip's and npm's settings only where to find packages. Memory
# is the sum of all processes' PSS, sampled each second. Needs root, for a mount and a PID namespace.
set -euo pipefail

serve() {
  local answer ready=0
  make serve &
  for ((second = 0; second < 900; second++)); do
    if curl --silent --fail --output /dev/null http://127.0.0.1:8000/health/ready; then
      ready=1
      break
    fi
    kill -0 $! || break
    sleep 1
  done
  ((ready)) || { echo "bare.sh: make serve is not ready" >&2; return 1; }
  echo "bare.sh: serve: ready after $SECONDS s"
  answer=$(curl --silent --fail http://127.0.0.1:8000/v1/chat/completions \
    -H 'content-type: application/json' \
    -d '{"model": "smollm2-135m", "messages": [{"role": "user", "content": "Say hello."}], "temperature": 0, "stream": true}')
  [[ $answer == *'data: [DONE]'* ]] || { echo "bare.sh: no complete answer: $answer" >&2; return 1; }
  pkill -TERM -f 'bin/specgate serve'
  wait $!
}

# Writes the greatest sum of PSS of this PID namespace to a file, in MiB.
watch_memory() { # file
  local sum peak=0
  while sleep 1; do
    # A process may end between the listing and the reading.
    sum=$({ cat /proc/[0-9]*/smaps_rollup 2>/dev/null || true; } | awk '/^Pss:/ { sum += $2 } END { print int(sum / 1024) }')
    if ((sum > peak)); then
      peak=$sum
      echo "$peak" >"$1"
    fi
  done
}

inside() { # command
  local status=0 memory
  for program in prometheus promtool; do
    if command -v "$program" >/dev/null; then
      mount --bind /dev/null "$(readlink -f "$(command -v "$program")")"
    fi
  done
  memory=$(mktemp)
  SECONDS=0
  watch_memory "$memory" &
  if [[ $1 == serve ]]; then serve || status=$?; else make "$1" || status=$?; fi
  kill %1
  printf 'bare.sh: %s: status %d, %d min %02d s, peak %d MiB\n' \
    "$1" "$status" $((SECONDS / 60)) $((SECONDS % 60)) "$(<"$memory")"
  return "$status"
}

if [[ ${1:-} == --inside ]]; then
  inside "$2"
  exit
fi

source=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git clone --quiet "$source" "$folder/specgate"
[[ -e $source/../shared ]] && ln -s "$(realpath "$source/../shared")" "$folder/shared"
mkdir "$folder/home"
python=$("${PYTHON:-python3}" -c 'import sys; print(sys.base_prefix)')/bin

settings=(
  "PATH=$python:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
  "HOME=$folder/home"
  LANG=C.UTF-8
)
for name in ${!PIP_*} ${!npm_config_*} ${!SSL_CERT_*} NODE_EXTRA_CA_CERTS \
  REQUESTS_CA_BUNDLE CURL_CA_BUNDLE http_proxy https_proxy no_proxy; do
  [[ -n ${!name:-} ]] && settings+=("$name=${!name}")
done
[[ -e $HOME/.npmrc ]] && settings+=("npm_config_userconfig=$HOME/.npmrc")
for file in "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
  [[ -e $file ]] && settings+=("PIP_CONFIG_FILE=$file")
done

cd "$folder/specgate"
(($#)) || set -- serve test
for command in "$@"; do
  env --ignore-environment "${settings[@]}" unshare --mount --pid --fork --mount-proc \
    bash scripts/bare.sh --inside "$command"
done
