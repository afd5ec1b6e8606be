"""vLLM's plugin hook, called at the start of each of its processes (`vllm.general_plugins`).

An engine core of vLLM survives a SIGKILL of its API server: with 0.32.0 it was still there after
20 s, with the model in memory. So each child process ties itself to its parent. The signal is
SIGKILL because SIGTERM does not end an engine core that waits for its API server.

vLLM loads plugins after the engine core's handshake with the API server. If the server is killed
before that, in the first seconds of a start, the core gives up only after five minutes. The
process that starts a worker should therefore also kill its process group.
"""

import multiprocessing
import signal

from engine.lifetime import die_with_parent


def register() -> None:
    """Tie a child process of vLLM to its parent; idempotent, and a no-op in the parent."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        die_with_parent(parent.pid, death_signal=signal.SIGKILL)
