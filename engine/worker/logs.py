"""Where the lines of our rooms go in a process of vLLM's."""

import logging


def log_as_vllm_does() -> None:
    """Have what the engine's rooms log go where vLLM's lines go; safe to repeat."""
    logging.getLogger("engine").parent = logging.getLogger("vllm")
