"""Let a worker's requests finish before it is stopped; Kubernetes runs this as its preStop hook.

First phase: sleep. The pod has just been removed from the headless Service, and new requests still
arrive until the gateways have looked the name up again. Second phase: wait until no request runs or
waits, or until the timeout. Then Kubernetes sends SIGTERM.
"""

import argparse
import sys
import time
import urllib.error
import urllib.request

POLL_SECONDS = 0.5
TIMEOUT_SECONDS = 5.0
COUNTED = ("vllm:num_requests_running", "vllm:num_requests_waiting")


def open_requests(url: str) -> float:
    """Return the number of running and waiting requests in vLLM's metrics.

    Raises:
        OSError: The worker does not respond.
    """
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310  # our own pod
        lines = answer.read().decode().splitlines()
    samples = (line.rsplit(maxsplit=1) for line in lines if line.startswith(COUNTED))
    # `vllm:num_requests_waiting_by_reason` has the same prefix and counts the same requests.
    return sum(float(value) for name, value in samples if name.split("{")[0] in COUNTED)


def drain(url: str, *, removal_seconds: float, finish_seconds: float) -> bool:
    """Wait for both phases.

    Args:
        url: URL of the worker's metrics.
        removal_seconds: Duration of the first phase.
        finish_seconds: Maximum duration of the second phase.

    Returns:
        Whether all requests finished.
    """
    time.sleep(removal_seconds)
    deadline = time.monotonic() + finish_seconds
    while True:
        try:
            if open_requests(url) == 0:
                return True
        except urllib.error.URLError as error:
            if isinstance(error.reason, ConnectionRefusedError):
                return True  # the worker has exited, and so its requests have ended
        except OSError:
            pass  # the worker is too busy to respond: try again
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_SECONDS)


def main() -> int:
    """Run the command; returns 0 always, since a failing preStop hook only adds an event."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8001/metrics")
    parser.add_argument("--removal-seconds", type=float, required=True)
    parser.add_argument("--finish-seconds", type=float, required=True)
    chosen = parser.parse_args()
    done = drain(
        chosen.url, removal_seconds=chosen.removal_seconds, finish_seconds=chosen.finish_seconds
    )
    if not done:
        sys.stderr.write("drain: requests are still running and will be aborted\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
