"""What vLLM calls in each of its processes when it starts (entry point `vllm.general_plugins`).

vLLM's engine core outlives an API server that is killed with SIGKILL (seen with 0.32.0: it was
still there after 20 s, with the model in memory), so each child ties itself to its parent. The
signal is SIGKILL: while an engine core waits for its API server, SIGTERM does not end it.

vLLM loads plugins after an engine core has shaken hands with its API server. A server killed
before that, in the first seconds of a start, leaves a core that gives up after five minutes;
whoever starts a worker should therefore also end its process group.
"""

import multiprocessing
import signal

from engine.lifetime import die_with_parent


def register() -> None:
    """Tie a child process of vLLM to its parent; safe to repeat, and nothing in the parent."""
    parent = multiprocessing.parent_process()
    if parent is not None and parent.pid is not None:
        die_with_parent(parent.pid, death_signal=signal.SIGKILL)
