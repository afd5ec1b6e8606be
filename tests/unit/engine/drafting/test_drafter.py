"""The drafter over the real suffix index; what the index would not do on demand is scripted."""

import logging
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.drafting import Beginning, Control, Drafter, Proposal, Row, SuffixSource
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.errors import SuffixCapacityError
from engine.policy import Price, StepCost
from engine.suffix import SuffixIndex

FREE = StepCost([(1, 1.0)], longest=64)  # tokens cost nothing but the least price
DEAR = StepCost([(1, 1.0), (2, 4.0)], longest=64)
PROMPT = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]


class Scripted:
    """A source whose drafts and errors the test gives."""

    def __init__(self) -> None:
        self.drafts: dict[str, tuple[list[int], list[float]]] = {}
        self.errors: dict[str, Exception] = {}
        self.running: dict[str, list[int]] = {}
        self.kept: list[tuple[str, bool]] = []
        self.asked: list[tuple[list[str], list[int], float]] = []
        self.more: dict[str, tuple[list[int], list[float]]] = {}
        self.gone_on: list[tuple[str, list[int], float, int]] = []

    def begin(self, request: str, control: Control, tokens: NDArray[np.int32]) -> None:
        self._raise("begin")
        self.running[request] = tokens.tolist()

    def extend(self, request: str, tokens: Sequence[int]) -> None:
        self._raise("extend")
        self.running[request] += tokens

    def propose(
        self, requests: Sequence[str], most: Sequence[int], *, floor: float
    ) -> list[Proposal]:
        self._raise("propose")
        self.asked.append((list(requests), list(most), floor))
        drafts = [self.drafts.get(name, ([], [])) for name in requests]
        return [
            Proposal(tokens[:longest], survival[:longest])
            for (tokens, survival), longest in zip(drafts, most, strict=True)
        ]

    def go_on(
        self, request: str, tokens: Sequence[int], survival: float, most: int, *, floor: float
    ) -> Proposal:
        self.gone_on.append((request, list(tokens), survival, most))
        more, chances = self.more.get(request, ([], []))
        return Proposal(more[:most], [survival * chance for chance in chances[:most]])

    def end(self, request: str, *, keep: bool) -> None:
        self._raise("end")
        del self.running[request]
        self.kept.append((request, keep))

    def _raise(self, call: str) -> None:
        if call in self.errors:
            raise self.errors[call]


def begin(control: Control = Control()) -> Callable[[str], Beginning]:  # noqa: B008  # frozen
    return lambda _: Beginning(np.array(PROMPT, np.int32), control)


def drafter(
    source: Scripted | None, cost: StepCost = FREE, most: int = 8, head_time: float = 0.0
) -> Drafter:
    return Drafter(
        source,
        Price(cost, margin=1.0),
        most=most,
        native_most=3,
        head_most=3,
        head_time=lambda rows: head_time,
    )


@pytest.fixture
def source() -> Scripted:
    return Scripted()


def real(most: int = 8) -> Drafter:
    return Drafter(SuffixSource(SuffixIndex(1 << 22, salt=1)), Price(FREE), most=most)


def test_a_draft_continues_what_the_prompt_said() -> None:
    drafts = real().step([Row("r", [11, 12, 13], 5)], begin())

    assert drafts.tokens == [[14, 15, 16, 17, 18]]
    assert drafts.origins == [Origin(SUFFIX)]


def test_a_prediction_is_named_as_such() -> None:
    drafts = real().step([Row("r", [1], 3)], begin(Control(prediction=(1, 2, 3))))

    assert (drafts.tokens, drafts.origins) == ([[2, 3]], [Origin(PREDICTION)])


def test_rows_that_got_no_token_are_left_out(source: Scripted) -> None:
    source.drafts["b"] = ([5], [0.9])

    drafts = drafter(source).step([Row("a", [], 8), Row("b", [1], 8)], begin())

    assert drafts.tokens == [[], [5]]
    assert drafts.origins == [None, Origin(SUFFIX)]
    assert list(source.running) == ["b"]


def test_a_request_begins_once_and_is_then_fed(source: Scripted) -> None:
    hybrid = drafter(source)

    hybrid.step([Row("r", [1], 8)], begin())
    hybrid.step([Row("r", [2, 3], 8)], begin())

    assert source.running["r"] == [*PROMPT, 1, 2, 3]


@pytest.mark.parametrize(
    ("control", "room", "most", "asked"),
    [
        (Control(), 20, 8, [8]),
        (Control(), 3, 8, [3]),
        (Control(most=2), 20, 8, [2]),
        (Control(most=50), 20, 8, [8]),
        (Control(most=0), 20, 8, None),
        (Control(suffix=False), 20, 8, None),
        (Control(), 0, 8, None),
        (Control(), -1, 8, None),
    ],
    ids=["own limit", "no room", "asked", "asks too much", "off", "head", "full", "over"],
)
def test_the_shortest_limit_counts(
    source: Scripted, control: Control, room: int, most: int, asked: list[int] | None
) -> None:
    drafter(source, most=most).step([Row("r", [1], room)], begin(control))

    assert [most for _, most, _ in source.asked] == ([] if asked is None else [asked])
    assert source.running["r"] == [*PROMPT, 1]


def test_tokens_below_the_price_are_cut(source: Scripted) -> None:
    source.drafts = {"a": ([1, 2, 3], [0.9, 0.5, 0.001]), "b": ([4], [0.002])}
    hybrid = drafter(source)

    drafts = hybrid.step([Row("a", [7], 8), Row("b", [7], 8)], begin())

    assert drafts.tokens == [[1, 2], []]
    assert drafts.origins == [Origin(SUFFIX), None]
    assert hybrid.counters.price == pytest.approx(0.01)


def test_the_source_is_told_the_lowest_price(source: Scripted) -> None:
    drafter(source, StepCost([(1, 1.0), (11, 2.0)], longest=64)).step([Row("r", [1], 8)], begin())

    ((_, _, floor),) = source.asked
    assert floor == pytest.approx(0.1)


def test_verdicts_are_counted(source: Scripted) -> None:
    source.drafts = {"sure": ([1], [0.9]), "doubtful": ([1], [0.9])}

    for name, cost, verdict in (
        ("sure", FREE, "drafted"),
        ("doubtful", DEAR, "priced_out"),
        ("silent", FREE, "unknown"),
    ):
        hybrid = drafter(source, cost)
        hybrid.step([Row(name, [1], 8)], begin())
        assert dict(hybrid.counters.verdicts) == {verdict: 1}


def test_accepted_drafts_raise_the_price() -> None:
    """Where drafts of eight are accepted whole, a step is worth more and so is its time."""
    cost = StepCost([(1, 1.0), (11, 2.0)], longest=64)
    prices = {}
    for accepted in (0, 8):
        source = Scripted()
        source.drafts["r"] = (list(range(8)), [0.99] * 8)
        hybrid = drafter(source, cost)
        for _ in range(50):
            hybrid.step([Row("r", [1] * (1 + accepted), 8)], begin())
        prices[accepted] = hybrid.counters.price

    assert prices[8] > 3 * prices[0]


def test_an_end_is_passed_on_with_what_to_keep(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step([Row("a", [1], 8), Row("b", [1], 8)], begin())

    hybrid.end(["a"], keep=True)
    hybrid.end(["b", "unknown"], keep=False)

    assert source.kept == [("a", True), ("b", False)]
    assert not hybrid.running


def test_a_suspended_request_begins_again(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step([Row("r", [1], 8)], begin())
    hybrid.end(["r"], keep=True)

    hybrid.step([Row("r", [2], 8)], begin())

    assert source.running["r"] == [*PROMPT, 2]


def test_without_memory_a_request_decodes_plainly_and_others_draft(source: Scripted) -> None:
    source.drafts["b"] = ([5], [0.9])
    hybrid = drafter(source)
    source.errors["begin"] = SuffixCapacityError("full")
    hybrid.step([Row("a", [1], 8)], begin())
    del source.errors["begin"]

    drafts = hybrid.step([Row("a", [1], 8), Row("b", [1], 8)], begin())
    hybrid.end(["a", "b"], keep=True)

    assert drafts.tokens == [[], [5]]
    assert hybrid.counters.fallbacks == {"SuffixCapacityError": 1}
    assert source.kept == [("b", True)]


@pytest.mark.parametrize("call", ["begin", "extend", "propose"])
def test_an_error_makes_the_step_plain_and_the_next_one_begins_again(
    source: Scripted, call: str
) -> None:
    source.drafts["r"] = ([5], [0.9])
    hybrid = drafter(source)
    hybrid.step([Row("r", [1], 8)], begin())
    hybrid.end(["r"] if call == "begin" else [], keep=False)

    source.errors[call] = RuntimeError("broken")
    broken = hybrid.step([Row("r", [2], 8)], begin())
    del source.errors[call]
    mended = hybrid.step([Row("r", [3], 8)], begin())

    assert (broken.tokens, broken.origins) == ([[]], [None])
    assert mended.tokens == [[5]]
    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert source.running["r"][-1] == 3


def test_an_error_of_the_caller_is_no_exception_either(source: Scripted) -> None:
    def lost(request: str) -> Beginning:
        raise KeyError(request)

    assert drafter(source).step([Row("r", [1], 8)], lost).tokens == [[]]


def test_an_error_before_a_step_counts_like_one_in_it(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step([Row("r", [1], 8)], begin())

    drafts = hybrid.fail(KeyError("r"), ["r", "unknown"])

    assert (drafts.tokens, drafts.origins) == ([[], []], [None, None])
    assert hybrid.counters.fallbacks == {"KeyError": 1}
    assert source.kept == [("r", False)]


def test_an_error_at_the_end_is_counted(source: Scripted) -> None:
    hybrid = drafter(source)
    hybrid.step([Row("r", [1], 8)], begin())
    source.errors["end"] = RuntimeError("broken")

    hybrid.end(["r"], keep=True)

    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert not hybrid.running


def test_repeated_errors_pause_speculation_and_a_success_resumes_it(
    source: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    source.drafts["r"] = ([5], [0.9])
    source.errors["propose"] = RuntimeError("broken")
    hybrid = drafter(source)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hybrid.step([Row("r", [1], 8)], begin())
    assert hybrid.counters.paused
    assert not source.running

    del source.errors["propose"]
    plain = 0
    while not hybrid.step([Row("r", [1], 8)], begin()).tokens[0]:
        plain += 1

    assert plain == hybrid.counters.verdicts["paused"] == 63
    assert not hybrid.counters.paused
    assert [record.message for record in caplog.records] == [
        "speculation failed, and its requests decode plainly",
        "speculation is paused after repeated errors; requests decode plainly",
    ]


class TestNativeDrafter:
    """What vLLM's own drafter proposes, judged by what was accepted of it before."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step([Row("r", [1], 8)], begin(), native=[[7, 8]])

        assert (drafts.tokens, drafts.origins) == ([[7, 8]], [Origin(NATIVE)])

    def test_rows_and_limits(self) -> None:
        rows = [Row("a", [], 8), Row("b", [1], 1), Row("c", [1], 8)]

        drafts = drafter(None).step(rows, begin(), native=[[1, 2], [3, 4], []])

        assert drafts.tokens == [[], [3], []]

    def test_a_mode_can_rule_it_out(self) -> None:
        control = Control(native=False)

        assert drafter(None).step([Row("r", [1], 8)], begin(control), native=[[7]]).tokens == [[]]

    @pytest.mark.parametrize(("survival", "winner"), [(0.99, SUFFIX), (0.05, NATIVE)])
    def test_the_draft_that_is_worth_more_is_taken(
        self, source: Scripted, survival: float, winner: int
    ) -> None:
        source.drafts["r"] = ([5, 6], [survival, survival])

        drafts = drafter(source).step([Row("r", [1], 8)], begin(), native=[[7, 8]])

        assert drafts.origins == [Origin(winner)]
        assert drafts.tokens == [[5, 6] if winner == SUFFIX else [7, 8]]

    def test_what_is_always_rejected_is_soon_not_drafted(self) -> None:
        hybrid = drafter(None, StepCost([(1, 1.0), (11, 2.0)], longest=64))

        lengths = [
            len(hybrid.step([Row("r", [1], 8)], begin(), native=[[7, 8, 9]]).tokens[0])
            for _ in range(60)
        ]

        assert lengths[0] > 0
        assert lengths[-1] == 0

    def test_what_is_not_used_is_scored_in_hindsight(self) -> None:
        """It would have been right all the time, so it is trusted again without a try."""
        hybrid = drafter(None, StepCost([(1, 1.0), (11, 2.0)], longest=64))
        for _ in range(60):
            hybrid.step([Row("r", [1], 8)], begin(), native=[[7, 8, 9]])

        for _ in range(40):
            drafts = hybrid.step([Row("r", [7], 8)], begin(), native=[[7, 8, 9]])

        assert drafts.tokens[0][:1] == [7]

    def test_it_is_asked_while_it_may_be_worth_it_and_now_and_then_later(self) -> None:
        hybrid = drafter(None, StepCost([(1, 1.0), (11, 2.0)], longest=64))
        asked = [hybrid.native_tokens()]
        for _ in range(200):
            hybrid.step([Row("r", [1], 8)], begin(), native=[[7, 8, 9] if asked[-1] else []])
            asked.append(hybrid.native_tokens())

        assert asked[0] == 3
        assert set(asked) == {0, 3}
        assert [at for at, tokens in enumerate(asked) if tokens][-1] > 100
        assert sum(asked[-64:]) == 3

    @pytest.mark.parametrize("control", [Control(native=False), Control(most=0)])
    def test_nobody_wants_it(self, control: Control) -> None:
        hybrid = drafter(None)

        hybrid.step([Row("r", [1], 8)], begin(control), native=[[]])

        assert hybrid.native_tokens() == 0


class Head:
    """A head whose tokens and confidence the test gives; remembers for which rows it ran."""

    def __init__(self, tokens: Sequence[int] = (7, 8, 9), confidence: float = 0.9) -> None:
        self.tokens = list(tokens)
        self.confidence = confidence
        self.ran: list[list[int]] = []

    def __call__(self, rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        self.ran.append(list(rows))
        return [(self.tokens, [self.confidence] * len(self.tokens)) for _ in rows]


class TestDraftHead:
    """A pass that costs time: run for the rows where it brings more than that."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step([Row("r", [1], 8)], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8, 9]], [Origin(HEAD)])

    def test_only_rows_that_may_use_it_are_run(self) -> None:
        rows = [Row("new", [], 8), Row("full", [1], 0), Row("a", [1], 8), Row("off", [1], 8)]
        controls = {"off": Control(head=False)}
        head = Head()

        drafts = drafter(None).step(
            rows,
            lambda name: Beginning(np.array(PROMPT, np.int32), controls.get(name, Control())),
            head=head,
        )

        assert head.ran == [[2]]
        assert drafts.tokens == [[], [], [7, 8, 9], []]

    def test_room_cuts_its_draft(self, source: Scripted) -> None:
        source.more["r"] = ([5], [0.9])

        drafts = drafter(source).step([Row("r", [1], 2)], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8]], [Origin(HEAD)])
        assert source.gone_on == []

    def test_rows_that_the_suffix_source_serves_better_are_left_out(self, source: Scripted) -> None:
        source.drafts["copy"] = (list(range(8)), [0.99] * 8)
        head = Head()

        drafts = drafter(source).step(
            [Row("copy", [1], 8), Row("prose", [1], 8)], begin(), head=head
        )

        assert head.ran == [[1]]
        assert drafts.origins == [Origin(SUFFIX), Origin(HEAD)]

    def test_a_pass_that_costs_more_than_it_brings_is_left_out(self, source: Scripted) -> None:
        head = Head()

        dear = drafter(source, head_time=2.0).step([Row("r", [1], 8)], begin(), head=head)
        assert (dear.tokens, head.ran) == ([[]], [])

        # Four rows share the pass, and the time is worth the same tokens to each.
        rows = [Row(name, [1], 8) for name in "abcd"]
        shared = drafter(source, head_time=0.8).step(rows, begin(), head=head)
        assert shared.tokens == [[7, 8, 9]] * 4

    def test_the_suffix_index_goes_on_where_it_ends(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.9, 0.8])

        drafts = drafter(source).step([Row("r", [1], 8)], begin(), head=Head())

        assert drafts.tokens == [[7, 8, 9, 5, 6]]
        assert drafts.origins == [Origin(HEAD, SUFFIX, 3)]
        ((request, tokens, survival, most),) = source.gone_on
        assert (request, tokens, most) == ("r", [7, 8, 9], 5)
        assert 0.0 < survival < 1.0

    def test_what_is_grafted_is_cut_at_the_price_too(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.0001, 0.0001])

        drafts = drafter(source).step([Row("r", [1], 8)], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8, 9]], [Origin(HEAD)])

    def test_a_request_that_wants_no_suffix_drafts_gets_no_graft(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.9, 0.8])

        drafts = drafter(source).step([Row("r", [1], 8)], begin(Control(suffix=False)), head=Head())

        assert drafts.tokens == [[7, 8, 9]]

    def test_what_is_always_wrong_is_soon_not_run_but_now_and_then(self) -> None:
        hybrid = drafter(None, head_time=0.1)
        head = Head()
        ran = []
        for _ in range(300):
            before = len(head.ran)
            hybrid.step([Row("r", [1], 8)], begin(), head=head)
            ran.append(len(head.ran) > before)

        assert ran[0]
        assert not any(ran[60:120][:3])
        assert 1 <= sum(ran[-130:]) <= 3

    def test_it_is_trusted_again_when_it_is_right(self) -> None:
        hybrid = drafter(None, head_time=0.1)
        wrong = Head()
        for _ in range(100):
            hybrid.step([Row("r", [1], 8)], begin(), head=wrong)

        right = Head()
        tokens = [
            hybrid.step([Row("r", [7, 8, 9], 8)], begin(), head=right).tokens[0]
            for _ in range(1000)
        ]

        assert tokens[-1] == [7, 8, 9]

    def test_confidence_tells_good_drafts_from_bad_ones(self) -> None:
        """Sure drafts come true and unsure ones do not: in the end only the sure are made."""
        hybrid = drafter(None, StepCost([(1, 1.0), (11, 3.0)], longest=64))
        lengths = {}
        for _ in range(200):
            for sure in (0.9, 0.3):
                head = Head(confidence=sure)
                lengths[sure] = len(hybrid.step([Row("r", [1], 8)], begin(), head=head).tokens[0])
                # What is sampled next scores this draft.
                hybrid.step([Row("r", [7, 8, 9] if sure > 0.5 else [1], 8)], begin())

        assert lengths[0.9] > 1
        assert lengths[0.3] <= 1

    def test_an_error_in_the_head_makes_the_step_plain(self, source: Scripted) -> None:
        def broken(rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
            raise RuntimeError("broken")

        hybrid = drafter(source)

        assert hybrid.step([Row("r", [1], 8)], begin(), head=broken).tokens == [[]]
        assert hybrid.counters.fallbacks == {"RuntimeError": 1}
        assert hybrid.step([Row("r", [1], 8)], begin(), head=Head()).tokens == [[7, 8, 9]]
