import threading
import time

import pytest
import torch

from engine.heads.pieces import by_rows, unhurried

TABLE = torch.arange(200.0).reshape(100, 2)


def doubled(pieces: list[int]) -> tuple[torch.Tensor, ...]:
    def compute(rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        pieces.append(len(rows))
        return 2 * rows, rows.sum(1).to(torch.int64)

    return by_rows(TABLE, compute)


def test_a_table_is_computed_at_once() -> None:
    pieces: list[int] = []

    twice, sums = doubled(pieces)

    assert pieces == [100]
    assert torch.equal(twice, 2 * TABLE)
    assert torch.equal(sums, TABLE.sum(1).to(torch.int64))


def test_beside_steps_it_is_computed_in_pieces_with_the_same_result() -> None:
    pieces: list[int] = []
    expected = doubled([])

    with unhurried():
        found = doubled(pieces)

    assert pieces == [64, 36]
    assert all(map(torch.equal, found, expected))
    assert [one.dtype for one in found] == [one.dtype for one in expected]


def test_it_pauses_for_longer_than_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)

    def compute(rows: torch.Tensor) -> tuple[torch.Tensor]:
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        return (rows,)

    with unhurried():
        by_rows(TABLE, compute)

    assert len(slept) == 2
    assert min(slept) >= 0.006


def test_one_thread_computes_whatever_vllm_says(monkeypatch: pytest.MonkeyPatch) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    with monkeypatch.context() as vllms:
        vllms.setattr(torch, "set_num_threads", lambda _: None)  # as in its CPU worker
        with unhurried():
            inside = torch.get_num_threads()
    after = torch.get_num_threads()
    torch.set_num_threads(before)

    assert (inside, after) == (1, 2)


def test_other_threads_are_not_slowed() -> None:
    threads = torch.get_num_threads()
    pieces: list[int] = []
    entered, left = threading.Event(), threading.Event()

    def load() -> None:
        with unhurried():
            entered.set()
            left.wait(2)

    loading = threading.Thread(target=load)
    loading.start()
    entered.wait(2)
    doubled(pieces)
    found = torch.get_num_threads()
    left.set()
    loading.join()

    assert (pieces, found) == ([100], threads)
