"""Routes the engine's log lines in vLLM's processes."""

import logging


def log_as_vllm_does() -> None:
    """Send the engine's log lines where vLLM's lines go; idempotent."""
    logging.getLogger("engine").parent = logging.getLogger("vllm")
