"""Our part of the executor and of stopping; tests/e2e shows that it runs and stops a model."""

import inspect
import multiprocessing
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest
from vllm.v1.engine.core import EngineCore, EngineCoreProc
from vllm.v1.executor.multiproc_executor import WorkerProc
from vllm.v1.executor.uniproc_executor import UniProcExecutor

from engine.worker import executor as module
from engine.worker.executor import (
    InProcessExecutor,
    collect_drafts,
    end_model_first,
    leave_stops_to_engine,
)


def test_several_ranks_are_rejected_with_advice() -> None:
    executor: Any = InProcessExecutor.__new__(InProcessExecutor)
    executor.parallel_config = SimpleNamespace(world_size=3)

    with pytest.raises(ValueError, match=r"has 3: set engine\.vllm\.distributed_executor_backend"):
        executor._init_executor()


@pytest.mark.parametrize("continues", [True, False])
def test_the_model_of_any_executor_ends_before_its_engine_and_once(
    continues: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vLLM's own executor for one rank, as GPU profiles use it."""
    monkeypatch.setattr(EngineCoreProc, "_handle_shutdown", lambda _: None)
    monkeypatch.setattr(module, "_vllms_handle_shutdown", lambda _: continues)
    ended: list[str] = []
    engine: Any = EngineCoreProc.__new__(EngineCoreProc)
    executor: Any = UniProcExecutor.__new__(UniProcExecutor)
    executor.driver_worker = SimpleNamespace(shutdown=lambda: ended.append("worker"))
    engine.model_executor = executor

    end_model_first()

    assert engine._handle_shutdown() is continues
    assert ended == ([] if continues else ["worker"])
    if not continues:
        engine.model_executor.shutdown()  # as vLLM does afterwards
        assert ended == ["worker"]


def survives(number: int, sent: Any) -> None:
    leave_stops_to_engine()
    os.kill(os.getpid(), number)
    sent.put("alive")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("name", "lives"), [("VllmWorker-1", True), ("EngineCore", False)], ids=["rank", "engine"]
)
def test_only_a_rank_leaves_a_stop_to_its_engine(number: int, name: str, lives: bool) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    process = context.Process(target=survives, args=(number, answers), name=name)

    process.start()
    process.join()

    assert (process.exitcode == 0) is lives
    assert answers.empty() is not lives


def test_vllm_still_names_and_stops_its_ranks_as_we_expect() -> None:
    """Contract: their name, and that the end of a pipe is enough to end one."""
    assert 'name=f"VllmWorker-{rank}"' in inspect.getsource(WorkerProc.make_worker_process)
    assert "EOFError" in inspect.getsource(WorkerProc.monitor_death_pipe)
    assert "signal.signal(signal.SIGTERM" in inspect.getsource(WorkerProc.worker_main)


class Scheduler:
    """What our engine asks of our scheduler."""

    def __init__(self, *, known: bool = True, ahead: bool = False) -> None:
        self.known, self.ahead = known, ahead
        self.drafts: list[str] = []

    def take_known(self) -> bool:
        return self.known

    def may_go_ahead(self) -> bool:
        return self.ahead

    def update_draft_token_ids(self, drafts: str) -> None:
        self.drafts.append(drafts)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """An engine that schedules asynchronously, with a step in its queue."""
    monkeypatch.setattr(EngineCore, "post_step", EngineCore.post_step)  # undone after the test
    collect_drafts()
    engine: Any = EngineCoreProc.__new__(EngineCoreProc)
    engine.async_scheduling, engine.check_for_draft_tokens = True, True
    engine.model_executor = SimpleNamespace(take_draft_token_ids=lambda: "drafts")
    engine.vllm_config = SimpleNamespace(max_concurrent_batches=2)
    engine.scheduler, engine.batch_queue, engine.batch_queue_size = Scheduler(), [], 2
    return engine


@pytest.mark.parametrize("known", [True, False])
def test_drafts_are_collected_once_tokens_are_known(engine: Any, known: bool) -> None:
    engine.scheduler = Scheduler(known=known)

    engine.post_step(True)

    assert engine.scheduler.drafts == (["drafts"] if known else [])


def test_synchronous_scheduling_stays_vllms(engine: Any) -> None:
    engine.async_scheduling, engine.scheduler = False, Scheduler(known=False)

    engine.post_step(True)

    assert engine.scheduler.drafts == ["drafts"]
    assert engine.batch_queue_size == 2


@pytest.mark.parametrize(
    ("ahead", "queue", "size"),
    [(False, [], 1), (False, ["a step"], 2), (True, [], 2)],
    ids=["waits", "a step is still in flight", "ahead"],
)
def test_one_step_is_in_flight_while_its_tokens_are_awaited(
    engine: Any, ahead: bool, queue: list[str], size: int
) -> None:
    engine.scheduler, engine.batch_queue = Scheduler(ahead=ahead), queue

    engine.post_step(True)

    assert engine.batch_queue_size == size
