import pytest

from bench.exact.plan import CROWD, FULL, MODES, PEERS, QUICK, Pass, Plan, chosen, reference_of
from tests.unit.bench.exact.example import prompt

PLANS = pytest.mark.parametrize("plan", [FULL, QUICK], ids=["full", "quick"])


@PLANS
def test_a_reference_comes_before_what_is_compared_with_it(plan: Plan) -> None:
    names = [one.name for one in plan.passes]

    for at, one in enumerate(plan.passes):
        assert names.index(reference_of(one).name) <= at


@PLANS
def test_each_reference_has_all_prompts_of_its_passes(plan: Plan) -> None:
    every = {one.name: one.every for one in plan.passes}

    for one in plan.passes:
        assert one.every % every[reference_of(one).name] == 0


@PLANS
def test_no_file_is_written_by_two_passes(plan: Plan) -> None:
    names = [one.name for one in plan.passes]

    assert len(set(names)) == len(names)


def ours(dtype: str) -> list[Pass]:
    return [
        one
        for one in FULL.passes
        if (one.serving.dtype, one.serving.kernels) == (dtype, "ours")
        and one.serving.drafter == "specgate"
    ]


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_thousand_prompts_are_asked_of_each_source_in_both_dtypes(dtype: str) -> None:
    assert FULL.each * 12 >= 1000
    crowded = {
        (o.source, o.serving.cuts) for o in ours(dtype) if o.clients == CROWD and o.every == 1
    }
    alone = {(o.source, o.serving.cuts) for o in ours(dtype) if o.clients == 1}

    assert crowded == {*((source, False) for source in MODES), ("hybrid", True)}
    assert alone == {*((source, False) for source in MODES), ("hybrid", True)}


def test_peers_are_asked_on_both_kernels_in_both_dtypes() -> None:
    found = {
        (one.serving.dtype, one.serving.kernels, one.source, one.clients)
        for one in FULL.passes
        if one.source in PEERS
    }

    assert len(found) == 16


def test_settings_are_named_by_what_differs() -> None:
    names = [name for one in FULL.passes if not one.is_reference for name in one.settings]

    assert len(set(names)) == len(names)
    assert "bfloat16, our kernels, hybrid, 16 at once, miss" in names
    assert "float32, vLLM's kernels, ngram, alone, hit" in names


def test_every_so_manieth_prompt_of_a_kind_is_chosen() -> None:
    prompts = [prompt(number, kind) for number in range(1, 8) for kind in ("chat", "code")]

    taken = [(one.number, one.kind) for one in chosen(prompts, 3)]

    assert taken == [(n, kind) for n in (1, 4, 7) for kind in ("chat", "code")]
