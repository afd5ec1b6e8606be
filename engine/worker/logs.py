"""Routes the engine's log lines in vLLM's processes."""

import logging

_BANNER_AND_ROUTES = "vllm.entrypoints.launchers.launcher"


def log_as_vllm_does() -> None:
    """Send the engine's log lines where vLLM's lines go; idempotent.

    Of vLLM's lines, the banner and the list of its routes are left out: clients reach only those
    that the gateway serves, and the sixty lines hide that it is ready.
    """
    logging.getLogger("engine").parent = logging.getLogger("vllm")
    logging.getLogger(_BANNER_AND_ROUTES).setLevel(logging.WARNING)
