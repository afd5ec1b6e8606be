"""Runs the model in vLLM's engine process; has the engine collect drafts, and end after its model.

vLLM 0.32 puts the model of a CPU worker into a process of its own, which costs three round trips
per step: forward, sampling, drafts. It does so to pin OpenMP threads, which our CPU profiles leave
to the kernel (docs/adr/0002). docs/adr/0014 has the figures, and says what happens at a stop.
"""

import multiprocessing
import signal
from typing import Any

from vllm.v1.engine.core import EngineCore, EngineCoreProc
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
        super()._init_executor()


_vllms_post_step = EngineCore.post_step


def collect_drafts() -> None:
    """Have this process's engine collect drafts with async scheduling, too.

    vLLM's engine takes them after each step when it schedules synchronously. Otherwise it leaves
    them on the device, where it expects the same number for each request, and has two steps in
    flight. Ours has one while its tokens are awaited, so that drafts can follow them.
    """
    EngineCore.post_step = _post_step


def _post_step(engine: Any, model_executed: bool) -> None:
    if not engine.async_scheduling:
        _vllms_post_step(engine, model_executed)
        return
    scheduler = engine.scheduler
    if scheduler.take_known():
        drafts = engine.model_executor.take_draft_token_ids()
        if drafts is not None:
            scheduler.update_draft_token_ids(drafts)
    if scheduler.may_go_ahead():
        engine.batch_queue_size = engine.vllm_config.max_concurrent_batches
    elif not engine.batch_queue:
        engine.batch_queue_size = 1


_vllms_handle_shutdown = EngineCoreProc._handle_shutdown


def end_model_first() -> None:
    """Have this engine process end its model before itself, which saves the suffix index.

    vLLM 0.32 restores the default SIGTERM action before it shuts down its executor. A second
    SIGTERM has often been sent by then: a stop signals the whole process group (from the gateway's
    supervisor, a terminal or systemd), and vLLM's API server forwards it to its engine. Until this
    point a second signal is harmless.
    """
    EngineCoreProc._handle_shutdown = _handle_shutdown


def _handle_shutdown(engine: Any) -> bool:
    """Tell whether the engine continues; if not, first shut down its executor, whichever it is."""
    goes_on: bool = _vllms_handle_shutdown(engine)
    if not goes_on:
        executor = engine.model_executor
        executor.shutdown()
        executor.shutdown = _do_nothing  # vLLM calls it once more
    return goes_on


def _do_nothing() -> None:
    pass


def leave_stops_to_engine() -> None:
    """Ignore the signals of a stop in a process that vLLM's engine started for a rank.

    A stop signals the whole process group. On these signals the ranks of vLLM 0.32 end at once, and
    the requests that the engine would finish fail. Without them a rank ends when its engine closes
    their pipe, or when the engine has died (see plugin.py).
    """
    if multiprocessing.current_process().name.startswith("VllmWorker"):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
