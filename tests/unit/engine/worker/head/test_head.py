import multiprocessing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed
from vllm.distributed.device_communicators.base_device_communicator import DeviceCommunicatorBase

from engine.errors import HeadError
from engine.heads import HeadConfig, HeadMemory
from engine.heads.view import View
from engine.worker import head as module
from engine.worker.head import HeadRun, StepStates, find_tables, gather_tables, warm_up
from tests.fakes.cuda import made_up_cuda
from tests.unit.engine.heads.conftest import head_with_window


def states(rows: int) -> torch.Tensor:
    """Row n is filled with n."""
    return torch.arange(rows, dtype=torch.float32)[:, None].expand(rows, 4)


class Echo:
    """A head that drafts its input: the newest token, then the number of its state."""

    def guess(
        self, states: torch.Tensor, rows: list[int], tokens: list[int], n: int, _view: View | None
    ) -> list[tuple[list[int], list[float]]]:
        numbers = states[rows, 0].long().tolist()
        drafts = [[token, number][:n] for token, number in zip(tokens, numbers, strict=True)]
        return [(draft, [0.5] * len(draft)) for draft in drafts]


@pytest.mark.parametrize(
    ("drafted", "sampled", "sequences", "expected"),
    [
        (None, [[7], [8], [9]], [0, 2], [0, 2]),
        ([0, 0, 0], [[7], [8], [9]], [1], [1]),
        ([2, 0, 3], [[7, 7], [8], [9, 9, 9, 9]], [0, 1, 2], [1, 3, 7]),
        ([2, 0, 3], [[7], [], [9]], [0, 2], [0, 4]),
    ],
    ids=["no drafts", "empty drafts", "accepted", "a sequence without tokens"],
)
def test_a_sequence_continues_from_its_last_accepted_token(
    drafted: list[int] | None, sampled: list[list[int]], sequences: list[int], expected: list[int]
) -> None:
    all_states, positions = StepStates(states(8), drafted).last(sequences, sampled)

    assert all_states[list(positions), 0].tolist() == expected


@pytest.mark.parametrize(("drafted", "expected"), [(None, [2, 0]), ([2, 0, 3], [4, 0])])
def test_states_of_some_sequences_are_those_they_had(
    drafted: list[int] | None, expected: list[int]
) -> None:
    found = StepStates(states(8), drafted).of([2, 0])

    assert found.first == expected
    assert found.hidden.shape == (8, 4)


def test_a_pass_returns_drafts_by_sequence_and_its_time() -> None:
    run = HeadRun(
        Echo(),  # type: ignore[arg-type]  # of the head only `guess` is used
        2,
        StepStates(states(8), [2, 0, 3]),
        ["a", "b", "c"],
        [[5, 6], [], [7]],
        memory=None,
    )
    assert (run.sequences, run.seconds) == (0, 0.0)

    drafts = run([0, 2])

    assert drafts == [([6, 1], [0.5, 0.5]), ([7, 4], [0.5, 0.5])]
    assert run.sequences == 2
    assert run.seconds > 0.0


@pytest.mark.parametrize("window", [0, 4])
def test_no_pass_is_slow_for_being_the_first(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs are captured before the gate sees a pass, whatever its number of sequences."""
    device = torch.device("cuda", 0)
    with made_up_cuda(monkeypatch) as cuda:
        head = head_with_window(window).to(device)
        memory = HeadMemory(head, requests=5, device=device) if window else None

        warm_up(head, 3, rows=5, memory=memory)
        assert cuda.captures == 4  # 8, 4, 2 and 1 sequences

        for rows in range(1, 6):
            names = [str(row) for row in range(rows)]
            step = StepStates(torch.zeros(rows, 32).to(device), None)
            run = HeadRun(head, 3, step, names, [[1]] * rows, memory=memory)
            cuda.reset()
            run(range(rows))
            assert (cuda.captures, cuda.waits) == (0, ["copy to the host"])
        assert memory is None or set(memory.requests) == {"0", "1", "2", "3", "4"}


TARGET_ROWS, RANKS = 10, 2


def target(rank: int) -> Any:
    """A rank's part of a target whose tables have 10 rows, 4 of them padding."""

    def part(sign: int) -> Any:
        rows = torch.arange(rank * 5.0, rank * 5.0 + 5)[:, None].expand(5, 2).contiguous()
        return SimpleNamespace(weight=torch.nn.Parameter(sign * rows))

    return SimpleNamespace(model=SimpleNamespace(embed_tokens=part(1)), lm_head=part(-1))


def gather_on(rank: int, store: Path, shares: dict[str, bool], send: Any) -> None:
    """Gather over gloo with vLLM's communicator, and report the shapes and the bytes sent."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS
    )
    group = torch.distributed.group.WORLD
    communicator = DeviceCommunicatorBase(group, torch.device("cpu"), group, "tp")
    gathered: list[int] = []

    def gather(part: torch.Tensor, dst: int, dim: int) -> torch.Tensor | None:
        gathered.append(part.nbytes)
        return communicator.gather(part, dst, dim)

    vars(module).update(tensor_model_parallel_gather=gather, supports_multimodal=lambda _: False)
    tables = gather_tables(target(rank), SimpleNamespace(**shares), 6)  # type: ignore[arg-type]
    found = [None if table is None else table[:, 0].tolist() for table in tables_of(tables)]
    send.put((rank, gathered, found))
    torch.distributed.destroy_process_group()


def tables_of(shared: Any) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    return shared.embedding, shared.output


WHOLE = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("embedding", "output", "tables", "first_rank"),
    [
        (False, False, 0, [None, None]),
        (True, False, 1, [WHOLE, None]),
        (False, True, 1, [None, [-row for row in WHOLE]]),
    ],
    ids=["none", "embedding", "output"],
)
def test_only_shared_tables_are_gathered_and_on_the_first_rank(
    embedding: bool, output: bool, tables: int, first_rank: list[Any], tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    shares = {"share_embedding": embedding, "share_output": output}
    ranks = [
        context.Process(target=gather_on, args=(rank, tmp_path / "store", shares, answers))
        for rank in range(RANKS)
    ]
    for rank in ranks:
        rank.start()
    found = sorted(answers.get(timeout=50) for _ in ranks)
    for rank in ranks:
        rank.join()

    part_bytes = 5 * 2 * 4
    assert found == [
        (0, [part_bytes] * tables, first_rank),
        (1, [part_bytes] * tables, [None, None]),
    ]


def test_a_target_of_one_rank_lends_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "supports_multimodal", lambda _: False)
    whole = target(0)

    tables = find_tables(whole, 3)
    nothing = find_tables(SimpleNamespace(model=None), 3)

    assert tables.embedding is not None
    assert tables.output is not None
    assert tables.embedding.data_ptr() == whole.model.embed_tokens.weight.data_ptr()
    assert tables.output[:, 0].tolist() == [0.0, -1.0, -2.0]
    assert tables_of(nothing) == (None, None)


def test_a_target_without_its_tables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "supports_multimodal", lambda _: False)
    config = HeadConfig(
        kind="mlp",
        hidden_size=4,
        vocab_size=10,
        inner_size=4,
        positions=2,
        share_output=True,
    )

    with pytest.raises(HeadError, match="do not support this target"):
        gather_tables(SimpleNamespace(model=None), config, 10)
