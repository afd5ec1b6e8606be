"""Our part of the executor; tests/e2e shows that it runs a model."""

from types import SimpleNamespace
from typing import Any

import pytest

from engine.worker import executor as module
from engine.worker.executor import InProcessExecutor


@pytest.fixture
def executor() -> Any:
    return InProcessExecutor.__new__(InProcessExecutor)


def test_several_ranks_are_rejected_with_advice(executor: Any) -> None:
    executor.parallel_config = SimpleNamespace(world_size=3)

    with pytest.raises(ValueError, match=r"has 3: set engine\.vllm\.distributed_executor_backend"):
        executor._init_executor()


@pytest.mark.parametrize("continues", [True, False])
def test_it_shuts_down_as_soon_as_the_engine_stops(
    continues: bool, executor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []
    executor.driver_worker = SimpleNamespace(shutdown=lambda: ended.append("worker"))
    monkeypatch.setattr(module, "_vllms_handle_shutdown", lambda _: continues)

    assert module._handle_shutdown(SimpleNamespace(model_executor=executor)) is continues

    assert ended == ([] if continues else ["worker"])
