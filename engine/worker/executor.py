"""Runs the model inside vLLM's engine process instead of a process of its own.

vLLM 0.32 puts the model of a CPU worker into its own process, which costs three round trips per
step: forward, sampling, drafts. It does so to pin OpenMP threads, which our CPU profiles leave to
the kernel (docs/adr/0002). docs/adr/0014 has the figures.
"""

from typing import Any

from vllm.v1.engine.core import EngineCoreProc
from vllm.v1.executor.uniproc_executor import UniProcExecutor


class InProcessExecutor(UniProcExecutor):
    """vLLM's single-process executor, under a name that vLLM's CPU platform does not replace."""

    def _init_executor(self) -> None:
        ranks = self.parallel_config.world_size
        if ranks > 1:
            raise ValueError(
                f"{type(self).__name__} supports one rank, but this profile has {ranks}: set "
                "engine.vllm.distributed_executor_backend to mp"
            )
        EngineCoreProc._handle_shutdown = _handle_shutdown
        super()._init_executor()

    def shutdown(self) -> None:
        """Stop drafting, which saves the suffix index, and free the model; idempotent."""
        super().shutdown()
        self.driver_worker = None


_vllms_handle_shutdown = EngineCoreProc._handle_shutdown


def _handle_shutdown(engine: Any) -> bool:
    """Tell whether the engine continues; if not, first shut down the executor in this process.

    vLLM 0.32 restores the default SIGTERM action before it shuts down its executor. A second
    SIGTERM has often been sent by then: a stop signals the whole process group (from the gateway's
    supervisor, a terminal or systemd), and vLLM's API server forwards it to its engine. Until this
    point a second signal is harmless.
    """
    goes_on: bool = _vllms_handle_shutdown(engine)
    if not goes_on:
        engine.model_executor.shutdown()
    return goes_on
