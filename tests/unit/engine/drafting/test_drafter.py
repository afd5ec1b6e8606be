"""The drafter over the real suffix index; what the index would not do on demand is scripted."""

import logging

import pytest

from engine.drafting import Beginning, Control, Drafter, SuffixSource
from engine.drafting.origin import PREDICTION, SUFFIX, Origin
from engine.errors import SuffixCapacityError
from engine.policy import Gate, Limits
from engine.suffix import SuffixIndex
from tests.unit.engine.drafting.scripted import DEAR, FREE, PROMPT, Scripted, begin, drafter


def real(most: int = 8) -> Drafter:
    return Drafter(SuffixSource(SuffixIndex(1 << 22, salt=1)), Gate(FREE), most=most)


def test_a_draft_continues_what_the_prompt_said() -> None:
    drafts = real().step(["r"], [[11, 12, 13]], begin(left=9))

    assert drafts.tokens == [[14, 15, 16, 17, 18]]
    assert drafts.origins == [Origin(SUFFIX)]


def test_a_prediction_is_named_as_such() -> None:
    drafts = real().step(["r"], [[1]], begin(Control(prediction=(1, 2, 3)), left=5))

    assert (drafts.tokens, drafts.origins) == ([[2, 3]], [Origin(PREDICTION)])


def test_rows_that_got_no_token_are_left_out(source: Scripted) -> None:
    source.drafts["b"] = ([5], [0.9])

    drafts = drafter(source).step(["a", "b"], [[], [1]], begin())

    assert drafts.tokens == [[], [5]]
    assert drafts.origins == [None, Origin(SUFFIX)]
    assert list(source.running) == ["b"]


def test_a_request_begins_once_and_is_then_fed(source: Scripted) -> None:
    hybrid = drafter(source)

    hybrid.step(["r"], [[1]], begin())
    hybrid.step(["r"], [[2, 3]], begin())

    assert source.running["r"] == [*PROMPT, 1, 2, 3]


@pytest.mark.parametrize(
    ("control", "room", "most", "asked"),
    [
        (Control(), 20, 8, 8),
        (Control(), 3, 8, 3),
        (Control(most=2), 20, 8, 2),
        (Control(most=50), 20, 8, 8),
        (Control(most=0), 20, 8, None),
        (Control(suffix=False), 20, 8, None),
        (Control(), 0, 8, None),
        (Control(), -1, 8, None),
    ],
    ids=["own limit", "no room", "asked", "asks too much", "off", "head", "full", "over"],
)
def test_the_shortest_limit_counts(
    source: Scripted, control: Control, room: int, most: int, asked: int | None
) -> None:
    drafter(source, most=most).step(["r"], [[1]], begin(control, left=room + 2))

    assert [most for _, most, _ in source.asked] == ([] if asked is None else [asked])
    assert source.running["r"] == [*PROMPT, 1]


def test_tokens_below_the_price_are_cut(source: Scripted) -> None:
    source.drafts = {"a": ([1, 2, 3], [0.9, 0.5, 0.001]), "b": ([4], [0.002])}
    hybrid = drafter(source)

    drafts = hybrid.step(["a", "b"], [[7], [7]], begin())

    assert drafts.tokens == [[1, 2], []]
    assert drafts.origins == [Origin(SUFFIX), None]
    assert hybrid.price == pytest.approx(0.01)


def test_the_source_is_told_the_lowest_price(source: Scripted) -> None:
    drafter(source, [(1, 1.0), (11, 2.0)]).step(["r"], [[1]], begin())

    ((_, _, floor),) = source.asked
    assert floor == pytest.approx(0.1, rel=1e-3)  # the row's context costs next to nothing


def test_verdicts_are_counted(source: Scripted) -> None:
    source.drafts = {"sure": ([1], [0.9]), "doubtful": ([1], [0.9])}

    for name, cost, verdict in (
        ("sure", FREE, "drafted"),
        ("doubtful", DEAR, "priced_out"),
        ("silent", FREE, "unknown"),
    ):
        hybrid = drafter(source, cost)
        hybrid.step([name], [[1]], begin())
        assert dict(hybrid.counters.verdicts) == {verdict: 1}


def test_accepted_drafts_raise_the_price() -> None:
    """Where drafts of eight are accepted whole, a step is worth more and so is its time."""
    cost = [(1, 1.0), (11, 2.0)]
    prices = {}
    for accepted in (0, 8):
        source = Scripted()
        source.drafts["r"] = (list(range(8)), [0.99] * 8)
        hybrid = drafter(source, cost)
        for _ in range(500):
            hybrid.step(["r"], [[1] * (1 + accepted)], begin())
        prices[accepted] = hybrid.price

    assert prices[8] > 3 * prices[0]


def test_an_end_is_passed_on_with_what_to_keep(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step(["a", "b"], [[1], [1]], begin())

    hybrid.end(["a"], keep=True)
    hybrid.end(["b", "unknown"], keep=False)

    assert source.kept == [("a", True), ("b", False)]
    assert not hybrid.running


def test_a_suspended_request_begins_again(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step(["r"], [[1]], begin())
    hybrid.end(["r"], keep=True)

    hybrid.step(["r"], [[2]], begin())

    assert source.running["r"] == [*PROMPT, 2]


def test_without_memory_a_request_decodes_plainly_and_others_draft(source: Scripted) -> None:
    source.drafts["b"] = ([5], [0.9])
    hybrid = drafter(source)
    source.errors["begin"] = SuffixCapacityError("full")
    hybrid.step(["a"], [[1]], begin())
    del source.errors["begin"]

    drafts = hybrid.step(["a", "b"], [[1], [1]], begin())
    hybrid.end(["a", "b"], keep=True)

    assert drafts.tokens == [[], [5]]
    assert hybrid.counters.fallbacks == {"SuffixCapacityError": 1}
    assert source.kept == [("b", True)]


@pytest.mark.parametrize("call", ["begin", "advance"])
def test_an_error_makes_the_step_plain_and_the_next_one_begins_again(
    source: Scripted, call: str
) -> None:
    source.drafts["r"] = ([5], [0.9])
    hybrid = drafter(source)
    hybrid.step(["r"], [[1]], begin())
    hybrid.end(["r"] if call == "begin" else [], keep=False)

    source.errors[call] = RuntimeError("broken")
    broken = hybrid.step(["r"], [[2]], begin())
    del source.errors[call]
    mended = hybrid.step(["r"], [[3]], begin())

    assert (broken.tokens, broken.origins) == ([[]], [None])
    assert mended.tokens == [[5]]
    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert source.running["r"][-1] == 3


def test_an_error_of_the_caller_is_no_exception_either(source: Scripted) -> None:
    def lost(request: str) -> Beginning:
        raise KeyError(request)

    assert drafter(source).step(["r"], [[1]], lost).tokens == [[]]


def test_an_error_before_a_step_counts_like_one_in_it(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step(["r"], [[1]], begin())

    drafts = hybrid.fail(KeyError("r"), ["r", "unknown"])

    assert (drafts.tokens, drafts.origins) == ([[], []], [None, None])
    assert hybrid.counters.fallbacks == {"KeyError": 1}
    assert source.kept == [("r", False)]


def test_errors_before_steps_do_not_lengthen_a_pause(source: Scripted) -> None:
    hybrid = drafter(source)
    for _ in range(40):
        hybrid.fail(KeyError("r"), ["r"])
    assert hybrid.counters.paused

    for _ in range(64):
        hybrid.step(["r"], [[1]], begin())

    assert not hybrid.counters.paused


def test_an_error_at_the_end_is_counted(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step(["r"], [[1]], begin())
    source.errors["end"] = RuntimeError("broken")

    hybrid.end(["r"], keep=True)

    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert not hybrid.running


def test_repeated_errors_pause_speculation_and_a_success_resumes_it(
    source: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    source.drafts["r"] = ([5], [0.9])
    source.errors["advance"] = RuntimeError("broken")
    hybrid = drafter(source)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hybrid.step(["r"], [[1]], begin())
    assert hybrid.counters.paused
    assert not source.running

    del source.errors["advance"]
    plain = 0
    while not hybrid.step(["r"], [[1]], begin()).tokens[0]:
        plain += 1

    assert plain == hybrid.counters.verdicts["paused"] == 63
    assert not hybrid.counters.paused
    assert [record.message for record in caplog.records] == [
        "speculation failed, and its requests decode plainly",
        "speculation is paused after repeated errors; requests decode plainly",
    ]


def test_an_error_in_the_index_itself_makes_the_step_plain(source: Scripted) -> None:
    """Which a step asks without Python in between; the first row has advanced by then."""
    index = SuffixIndex(1 << 22, salt=1)
    hybrid = Drafter(SuffixSource(index), Gate(FREE), most=8)
    hybrid.step(["a", "b"], [[1], [1]], begin())
    index.finish("b", keep=False)

    broken = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())
    mended = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())

    assert (broken.tokens, broken.origins) == ([[], []], [None, None])
    # In the step, and where the request was to be ended.
    assert hybrid.counters.fallbacks == {"UnknownRequestError": 2}
    assert mended.tokens == [[13, 14, 15, 16, 17, 18, 19, 20]] * 2
    assert index.stats().requests == 2


def test_a_request_in_another_row_is_the_same(source: Scripted) -> None:
    """Rows are remembered by their places; those change, and names come as equal strings."""
    hybrid = drafter(source)
    hybrid.step(["a", "b", "c"], [[1], [2], [3]], begin())
    hybrid.end(["b"], keep=False)

    hybrid.step(["c", "".join(["", "a"]), "b"], [[4], [5], [6]], begin())

    assert source.running == {
        name: [*PROMPT, *new] for name, new in zip("abc", ([1, 5], [6], [3, 4]), strict=True)
    }


def test_a_step_whose_parts_do_not_fit_is_plain(source: Scripted) -> None:
    hybrid = drafter(source)

    assert hybrid.step(["a", "b"], [[1]], begin()).tokens == [[], []]
    assert hybrid.step(["a"], [["one"]], begin()).tokens == [[]]  # type: ignore[list-item]
    assert hybrid.step(["a"], [[2**40]], begin()).tokens == [[]]
    assert hybrid.counters.fallbacks == {"ValueError": 2, "TypeError": 1}


def test_a_name_that_is_no_unicode_makes_the_step_plain(source: Scripted) -> None:
    hybrid = drafter(source)

    assert hybrid.step(["\ud800"], [[1]], begin()).tokens == [[]]
    assert hybrid.counters.fallbacks == {"UnicodeEncodeError": 2}


def test_a_fixed_price_is_that_of_all_who_name_none(source: Scripted) -> None:
    source.drafts = {name: ([1, 2, 3], [0.9, 0.5, 0.3]) for name in ("none", "own")}
    gate = Gate(DEAR)
    hybrid = Drafter(source, gate, most=8, fixed_price=0.4)
    controls = {"none": Control(), "own": Control(price=0.2)}

    drafts = hybrid.step(["none", "own"], [[7], [7]], lambda name: begin(controls[name])(name))

    assert drafts.tokens == [[1, 2], [1, 2, 3]]
    assert gate.price > 0.9


def test_a_regime_that_changes_is_told_once(
    source: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    source.drafts["r"] = ([1], [0.9])
    hybrid = drafter(source, DEAR)

    with caplog.at_level(logging.INFO, "engine.drafting.drafter"):
        for _ in range(300):
            hybrid.step(["r"], [[1]], begin())

    (record,) = caplog.records
    assert record.message.startswith("the gate is shut: priced_out; price ")
    assert hybrid.counters.verdicts["probed"] == 6
    assert hybrid.counters.verdicts["priced_out"] == 294


def test_more_requests_than_allowed_is_a_verdict_of_its_own(source: Scripted) -> None:
    source.drafts = {"a": ([1], [0.9]), "b": ([1], [0.9])}
    hybrid = drafter(source, limits=Limits(max_batch_size=1, min_acceptance_ratio=0.0))

    assert hybrid.step(["a", "b"], [[1], [1]], begin()).tokens == [[], []]
    assert hybrid.counters.verdicts == {"limited": 1}
