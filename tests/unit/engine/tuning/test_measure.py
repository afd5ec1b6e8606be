import asyncio
import os
import subprocess
import sys

import pytest

from engine.tuning import measure
from engine.tuning.measure import Measurement, deal, measure_alone, memory_mib, run_cell
from engine.tuning.variants import Variant
from engine.tuning.workload import Prompt
from tests.unit.engine.tuning.stand_in import HEAD_DRAFT, StandIn

PROMPTS = [Prompt([1, 2], 12), Prompt([3, 4], 12), Prompt([5], 12)]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_REPORT_SECONDS", 0.0)
    monkeypatch.setattr(measure, "SETTLE_SECONDS", 0.0)


def worker(*sources: str) -> StandIn:
    return StandIn({"speculation": {"sources": list(sources)}})


def alone(writer: StandIn, *sources: str, burst: int = 0) -> Measurement:
    variant = Variant(sources)  # type: ignore[arg-type]  # known sources
    return asyncio.run(
        measure_alone(
            writer,  # type: ignore[arg-type]  # stands in for a Writer
            variant,
            PROMPTS,
            seconds=60.0,
            count=None,
            burst=burst,
        )
    )


def test_drafts_are_counted_by_source_and_place() -> None:
    found = Measurement("head")
    origin = 2 << 16 | 1 << 20 | 2 << 24  # two of a head, then the index
    steps = {"per_step_drafted": [origin | 5, HEAD_DRAFT], "per_step_accepted": [3, 1]}
    answer = {
        "choices": [{"token_ids": [1, 2, 3]}],
        "metrics": {"speculative_decoding": steps, "time_to_first_token_ms": 250.0},
    }

    found.take(answer, 0.5)

    assert found.drafted["head"][:4] == [2, 2, 1, 0]
    assert found.accepted["head"][:4] == [2, 1, 0, 0]
    assert found.drafted["suffix"][:6] == [0, 0, 1, 1, 1, 0]
    assert found.accepted["suffix"][:4] == [0, 0, 1, 0]
    assert (found.goodput, found.prefill_seconds) == (6.0, 0.25)


def test_a_measurement_is_the_same_after_it_was_kept() -> None:
    found = alone(worker("suffix"), "suffix")

    assert Measurement(**found.as_json()) == found


def test_a_worker_without_drafts_has_no_costs_and_no_trace() -> None:
    found = alone(worker())

    assert (found.requests, found.tokens) == (3, 36)
    assert (found.step_ms, found.trace, found.drafted) == ([], [], {})


def test_a_head_is_asked_again_for_a_draft_in_every_step() -> None:
    writer = worker("suffix", "head")

    found = alone(writer, "suffix", "head")

    again = [one["vllm_xargs"] for one in writer.asked[-3:]]
    assert all(one["specgate_mode"] == "head" for one in again)
    assert all(one["specgate_price"] == 0.0 for one in again)
    assert found.trace == [[2, 0]] * 3
    assert found.trace_tokens == 3
    assert found.pass_ms == [(1, 1.0)]


def test_a_burst_has_its_own_tenant_and_short_answers() -> None:
    writer = worker("suffix")

    alone(writer, "suffix", burst=2)

    tenants = [one["vllm_xargs"]["specgate_tenant"] for one in writer.asked]
    assert tenants[-4:] == ["burst-0", "burst-0", "burst-0", "burst-1"]


def test_a_prompt_that_comes_again_is_another_tenants() -> None:
    dealt = deal(PROMPTS, 2, 3, "t")

    assert [(prompt.tokens, tenant) for prompt, tenant in dealt] == [
        ([5], "t-0"),
        ([1, 2], "t-1"),
        ([3, 4], "t-1"),
    ]


def test_a_cell_counts_tokens_while_all_clients_are_busy() -> None:
    writer = worker("suffix")

    cell = asyncio.run(run_cell(writer, deal(PROMPTS, 0, 6, "t"), 2))  # type: ignore[arg-type]  # same

    assert cell.tokens == writer.generated
    assert cell.goodput > 0


def test_memory_counts_children_too() -> None:
    before = memory_mib(os.getpid())
    code = "held = bytearray(80 << 20); print(len(held), flush=True); input()"

    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        during = memory_mib(os.getpid())
        child.communicate(b"\n")

    assert before > 5
    assert during > before + 70
    assert memory_mib(child.pid) == 0
