"""What is ours of the executor; that it runs a model is shown on the real worker (tests/e2e)."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def vllm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what vllm and torch do while they are imported is theirs
        import engine.worker.executor  # noqa: F401


class Worker:
    def __init__(self) -> None:
        self.ended = 0

    def shutdown(self) -> None:
        self.ended += 1


@pytest.fixture
def executor() -> Any:
    from engine.worker.executor import InProcessExecutor

    made: Any = InProcessExecutor.__new__(InProcessExecutor)
    made.driver_worker = Worker()
    return made


def test_several_ranks_are_refused_with_what_to_do(executor: Any) -> None:
    executor.parallel_config = SimpleNamespace(world_size=3)

    with pytest.raises(ValueError, match=r"has 3: set engine\.vllm\.distributed_executor_backend"):
        executor._init_executor()


def test_it_ends_once(executor: Any) -> None:
    worker = executor.driver_worker

    executor.shutdown()
    executor.shutdown()

    assert worker.ended == 1


@pytest.mark.parametrize("goes_on", [True, False])
def test_it_ends_as_soon_as_the_engine_does_not_go_on(
    goes_on: bool, executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.worker import executor as module

    worker = executor.driver_worker
    monkeypatch.setattr(module, "_vllms_handle_shutdown", lambda _: goes_on)

    assert module._handle_shutdown(SimpleNamespace(model_executor=executor)) is goes_on

    assert worker.ended == (0 if goes_on else 1)
