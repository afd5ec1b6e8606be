"""Let a worker's requests finish before it is told to end; Kubernetes runs this as its preStop.

First phase: nothing but time passes. The pod has just been taken out of the headless Service; until
gateways have noticed, new requests still come, and are served. Second phase: until no request runs
or waits, or the time is over. Then Kubernetes sends SIGTERM.
"""

import argparse
import sys
import time
import urllib.error
import urllib.request

LOOK_SECONDS = 0.5
TIMEOUT_SECONDS = 5.0
COUNTED = ("vllm:num_requests_running", "vllm:num_requests_waiting")


def open_requests(url: str) -> float:
    """How many requests run or wait, as vLLM's metrics say.

    Raises:
        OSError: The worker does not answer.
    """
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # our own pod
        lines = answer.read().decode().splitlines()
    samples = (line.rsplit(maxsplit=1) for line in lines if line.startswith(COUNTED))
    # `vllm:num_requests_waiting_by_reason` begins like one of them and counts the same again.
    return sum(float(value) for name, value in samples if name.split("{")[0] in COUNTED)


def drain(url: str, *, removal_seconds: float, finish_seconds: float) -> bool:
    """Wait; whether all requests finished.

    Args:
        url: Of the worker's metrics.
        removal_seconds: How long the first phase lasts.
        finish_seconds: How long the second phase lasts at most.
    """
    time.sleep(removal_seconds)
    deadline = time.monotonic() + finish_seconds
    while True:
        try:
            if open_requests(url) == 0:
                return True
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return True  # it is gone, and so are its requests
        except OSError:
            pass  # it is too busy to answer: look again
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_SECONDS)


def main() -> int:
    """Run as a command; 0 in any case, since a failed preStop changes nothing but the events."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8001/metrics")
    parser.add_argument("--removal-seconds", type=float, required=True)
    parser.add_argument("--finish-seconds", type=float, required=True)
    chosen = parser.parse_args()
    done = drain(
        chosen.url, removal_seconds=chosen.removal_seconds, finish_seconds=chosen.finish_seconds
    )
    if not done:
        sys.stderr.write("drain: requests still run and will be cut off\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
