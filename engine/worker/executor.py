"""Runs the model in vLLM's engine process instead of one of its own.

vLLM 0.32 gives the model of a CPU worker its own process, and each step crosses to it three times:
for the forward, for the sampling, for the drafts. It does so to bind OpenMP's threads, which our
CPU profiles leave to the kernel (docs/adr/0002); figures in docs/adr/0014.
"""

from typing import Any

from vllm.v1.engine.core import EngineCoreProc
from vllm.v1.executor.uniproc_executor import UniProcExecutor


class InProcessExecutor(UniProcExecutor):
    """vLLM's executor for one process, under a name that its CPU platform does not replace."""

    def _init_executor(self) -> None:
        ranks = self.parallel_config.world_size
        if ranks > 1:
            raise ValueError(
                f"{type(self).__name__} runs one rank, and this profile has {ranks}: set "
                "engine.vllm.distributed_executor_backend to mp"
            )
        EngineCoreProc._handle_shutdown = _handle_shutdown
        super()._init_executor()

    def shutdown(self) -> None:
        """End our drafting, which saves the suffix index, and free the model; safe to repeat."""
        super().shutdown()
        self.driver_worker = None


_vllms_handle_shutdown = EngineCoreProc._handle_shutdown


def _handle_shutdown(engine: Any) -> bool:
    """Tell whether the engine goes on; before it stops, end what runs in its process.

    vLLM 0.32 makes SIGTERM deadly again before it tears down its executor. By then a second one is
    often on its way: a stop signals the whole process group (the gateway's supervisor, a terminal,
    systemd), and vLLM's API server passes it on to its engine. Up to here it does no harm.
    """
    goes_on: bool = _vllms_handle_shutdown(engine)
    if not goes_on:
        engine.model_executor.shutdown()
    return goes_on
