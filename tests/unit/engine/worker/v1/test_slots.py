from collections.abc import Iterator

import pytest
import torch
from vllm.v1.worker.block_table import MultiGroupBlockTable

from engine.worker.v1.slots import map_slots_alone, on_one_thread


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    set_threads(2)
    # As vLLM's CPU worker leaves it.
    monkeypatch.setattr(torch, "set_num_threads", lambda _: pytest.fail("vLLM refuses"))
    yield
    set_threads(threads)


def test_function_runs_on_one_thread_and_others_get_theirs_back() -> None:
    seen: list[object] = []

    def work(*args: object, **kwargs: object) -> None:
        seen.extend([torch.get_num_threads(), args, kwargs])

    on_one_thread(work)(1, b=2)
    assert seen == [1, (1,), {"b": 2}]
    assert torch.get_num_threads() == 2


def test_threads_come_back_after_a_failure() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        on_one_thread(fail)()
    assert torch.get_num_threads() == 2


def test_slot_mapping_is_limited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def work(*_: object) -> None:
        seen.append(torch.get_num_threads())

    monkeypatch.setattr(MultiGroupBlockTable, "compute_slot_mapping", work)
    map_slots_alone()
    limited = MultiGroupBlockTable.compute_slot_mapping
    map_slots_alone()
    assert MultiGroupBlockTable.compute_slot_mapping is limited
    MultiGroupBlockTable.compute_slot_mapping(None, 1, None, None)
    assert seen == [1]
