"""The drafter over the real suffix index: the life of requests, limits, errors, logs."""

import logging
from collections.abc import Sequence

import pytest

from engine.drafting import ON_DEVICE, Beginning, Control, Drafter, InFlight
from engine.drafting.origin import HEAD, NATIVE, PREDICTION, SUFFIX, Origin
from engine.errors import SuffixCapacityError
from engine.policy import Gate
from engine.suffix import SuffixIndex
from engine.suffix.index import Tokens
from tests.unit.engine.drafting.scripted import (
    CHEAP,
    DEAR,
    PROMPT,
    Head,
    begin,
    drafter,
    suffix,
)


class Failing(SuffixIndex):
    """The real index, of which a test makes calls fail."""

    def __init__(self) -> None:
        super().__init__(1 << 22, salt=1)
        self.errors: dict[str, Exception] = {}
        self.forgets = False  # requests as soon as they have begun

    def start(
        self, request: str, tenant: str, prompt_tokens: Tokens, *, temperature: float = 0.0
    ) -> None:
        if "start" in self.errors:
            raise self.errors["start"]
        super().start(request, tenant, prompt_tokens, temperature=temperature)
        if self.forgets:
            super().finish(request, keep=False)

    def predict(self, request: str, tokens: Tokens) -> None:
        if "predict" in self.errors:
            raise self.errors["predict"]
        super().predict(request, tokens)

    def finish(self, request: str, *, keep: bool) -> None:
        super().finish(request, keep=keep)
        if "finish" in self.errors:
            raise self.errors["finish"]


def broken_head(sequences: Sequence[int], /) -> list[tuple[list[int], list[float]]]:
    raise RuntimeError("broken head")


def test_a_draft_continues_the_prompt() -> None:
    drafts = drafter(suffix()).step(["r"], [[11, 12, 13]], begin(left=9))

    assert drafts.tokens == [[14, 15, 16, 17, 18]]
    assert drafts.origins == [Origin(SUFFIX)]


def test_a_draft_that_follows_the_prediction_says_so() -> None:
    control = Control(prediction=(1, 2, 3))

    drafts = drafter(suffix()).step(["r"], [[1]], begin(control, left=5))

    assert (drafts.tokens, drafts.origins) == ([[2, 3]], [Origin(PREDICTION)])


def test_a_sequence_without_tokens_does_not_begin() -> None:
    hybrid = drafter(suffix())

    drafts = hybrid.step(["a", "b"], [[], [11, 12]], begin())

    assert drafts.tokens == [[], PROMPT[2:]]
    assert drafts.origins == [None, Origin(SUFFIX)]
    assert list(hybrid.running) == ["b"]


def test_a_request_begins_once_and_is_then_fed() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1, 2]], begin())
    hybrid.step(["r"], [[3, 4, 5, 6, 11]], begin())

    assert hybrid.step(["r"], [[1, 2]], begin()).tokens == [[3, 4, 5, 6, 11, 1, 2, 3]]


@pytest.mark.parametrize(
    ("control", "room", "most", "length"),
    [
        (Control(), 20, 8, 8),
        (Control(), 3, 8, 3),
        (Control(most=2), 20, 8, 2),
        (Control(most=50), 20, 8, 8),
        (Control(most=0), 20, 8, 0),
        (Control(suffix=False), 20, 8, 0),
        (Control(), 0, 8, 0),
        (Control(), -1, 8, 0),
    ],
    ids=["own limit", "no room", "asked", "asks too much", "off", "head", "full", "over"],
)
def test_the_shortest_limit_counts(control: Control, room: int, most: int, length: int) -> None:
    hybrid = drafter(suffix(), most=most)

    drafts = hybrid.step(["r"], [[11, 12]], begin(control, left=room + 3))

    assert len(drafts.tokens[0]) == length


def test_tokens_below_the_price_are_cut() -> None:
    prompt = [5, 7, 8, 9, 4, 3, 2, 1]

    free = drafter(suffix()).step(["r"], [[5]], begin(prompt=prompt))
    hybrid = drafter(suffix(), [(1, 1.0), (11, 3.0)])
    cheap = hybrid.step(["r"], [[5]], begin(prompt=prompt))

    assert free.tokens == [[*prompt[1:], 5]]
    assert 0 < len(cheap.tokens[0]) < 8
    assert hybrid.price == pytest.approx(0.2, abs=0.05)


def test_accepted_drafts_raise_the_price() -> None:
    """If drafts are accepted, a step yields more, and so its time is worth more."""
    prices = {}
    for accepted in (0, 8):
        hybrid = drafter(None, CHEAP, most=3)
        for _ in range(500):
            sampled = [7, 8, 9, 1] if accepted else [1]
            hybrid.step(["r"], [sampled], begin(), head=Head())
        prices[accepted] = hybrid.gate.price

    assert prices[8] > 1.5 * prices[0]


@pytest.mark.parametrize(
    ("written", "max_batch_size", "decision"),
    [([11], None, "drafted"), ([99], None, "unknown"), ([11], 0, "limited")],
    ids=["drafted", "unknown", "limited"],
)
def test_decisions_are_counted(
    written: list[int], max_batch_size: int | None, decision: str
) -> None:
    hybrid = drafter(suffix(), max_batch_size=max_batch_size)
    hybrid.step(["r"], [written], begin())

    assert dict(hybrid.counters.decisions) == {decision: 1}


@pytest.mark.parametrize("keep", [True, False])
def test_an_answer_is_kept_or_not(keep: bool) -> None:
    hybrid = drafter(suffix())
    hybrid.step(["a"], [[1, 2, 3, 4]], begin())
    hybrid.end(["a", "unknown"], keep=keep)
    assert not hybrid.running

    drafts = hybrid.step(["b"], [[1, 2]], begin(prompt=[50]))

    assert drafts.tokens == [[3, 4] if keep else []]


def test_the_index_never_hears_of_a_request_that_is_not_indexed() -> None:
    index = suffix()
    hybrid = drafter(index)

    drafts = hybrid.step(["r"], [[11, 12]], begin(Control(indexed=False)))
    assert index.stats().requests == 0
    hybrid.step(["r"], [[1, 2, 3]], begin())
    hybrid.end(["r"], keep=True)

    assert drafts.tokens == [[]]
    assert (index.stats().tokens, index.stats().tenants) == (0, 0)
    assert not hybrid.counters.fallbacks


def test_a_request_that_was_preempted_begins_again() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1]], begin())
    hybrid.end(["r"], keep=True)

    drafts = hybrid.step(["r"], [[11, 12]], begin())

    assert drafts.tokens == [PROMPT[2:]]


def test_without_memory_a_request_has_no_drafts_of_the_index_and_others_have() -> None:
    index = Failing()
    hybrid = drafter(index)
    index.errors["start"] = SuffixCapacityError("full")
    hybrid.step(["a"], [[11, 12]], begin())
    index.errors.clear()

    drafts = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())
    hybrid.end(["a", "b"], keep=True)

    assert drafts.tokens == [[], PROMPT[2:]]
    assert hybrid.counters.fallbacks == {"SuffixCapacityError": 1}


def test_a_request_with_an_odd_id_costs_the_others_nothing() -> None:
    name = "x" * 1100  # the index knows names of up to 1,024 bytes
    hybrid = drafter(suffix())
    rounds = [hybrid.step([name, "b"], [[11, 12], [11, 12]], begin()).tokens for _ in range(9)]

    assert [tokens[0] for tokens in rounds] == [[]] * 9
    assert all(tokens[1] for tokens in rounds)
    assert hybrid.may_draft("suffix")
    assert hybrid.counters.decisions["failed"] == 0


def test_a_request_whose_begin_fails_decodes_plainly_and_the_others_go_on() -> None:
    def lost(request: str) -> Beginning:
        if request == "lost":
            raise KeyError(request)
        return begin()(request)

    hybrid = drafter(suffix())
    for _ in range(5):
        drafts = hybrid.step(["lost", "b"], [[11, 12], [11, 12]], lost, head=Head())

        assert drafts.tokens[0] == []
        assert drafts.tokens[1]

    assert hybrid.counters.fallbacks == {"KeyError": 1}


def test_a_prediction_that_the_index_refuses_costs_the_request_only_that() -> None:
    index = Failing()
    index.errors["predict"] = SuffixCapacityError("full")
    hybrid = drafter(index)

    drafts = hybrid.step(["r"], [[11, 12]], begin(Control(prediction=(7, 8))))

    assert drafts.tokens == [PROMPT[2:]]
    assert hybrid.counters.fallbacks == {"SuffixCapacityError": 1}


def test_tokens_that_the_scheduler_cut_do_not_count_as_refused() -> None:
    """vLLM may verify less of a draft than was asked for, or nothing."""
    trust = {}
    for cut in (False, True):
        hybrid = drafter(suffix())
        text = [*range(30)] * 20
        at = 30
        verified = 0
        for _ in range(100):
            sampled = text[at : at + 1 + verified]
            at = (at + len(sampled) - 30) % 300 + 30
            drafts = hybrid.step(
                ["r"], [sampled], begin(prompt=text[:30]), verified=[verified if cut else 8]
            )
            verified = min(2, len(drafts.tokens[0]))
        trust[cut] = hybrid.gate.trust

    assert trust[True] >= 1.0
    assert trust[False] < 0.8


class TestErrorsOfASource:
    """A source that fails is paused; the others go on."""

    def test_an_error_of_the_index_empties_the_step_and_the_next_begins_again(self) -> None:
        index = suffix()
        hybrid = drafter(index)
        hybrid.step(["a", "b"], [[1], [1]], begin())
        index.finish("b", keep=False)

        broken = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())
        mended = hybrid.step(["a", "b"], [[11, 12], [11, 12]], begin())

        assert (broken.tokens, broken.origins) == ([[], []], [None, None])
        # Once in the step, and once where the request was to be ended.
        assert hybrid.counters.fallbacks == {"UnknownRequestError": 2}
        assert mended.tokens == [PROMPT[2:]] * 2
        assert index.stats().requests == 2

    def test_an_index_that_always_fails_pauses_and_the_head_goes_on(self) -> None:
        index = Failing()
        index.forgets = True
        hybrid = drafter(index)
        for _ in range(3):
            hybrid.step(["r"], [[1]], begin(), head=Head())
        index.forgets = False
        assert not hybrid.may_draft("suffix")
        assert hybrid.may_draft("head")

        paused = [hybrid.step(["r"], [[1]], begin(), head=Head()).origins for _ in range(64)]
        hybrid.end(["r"], keep=False)
        mended = hybrid.step(["new"], [[11, 12]], begin())

        assert paused[:30] == [[Origin(HEAD)]] * 30
        assert hybrid.may_draft("suffix")
        assert mended.tokens == [PROMPT[2:]]

    def test_a_head_that_always_fails_pauses_and_the_index_goes_on(self) -> None:
        hybrid = drafter(suffix())
        allowed = []
        for number in range(400):
            allowed.append(hybrid.allows_head())
            head = broken_head if allowed[-1] else None
            sampled = [[11, 12], [1000 + number]]
            drafts = hybrid.step(["copy", "prose"], sampled, begin(), head=head)
            assert drafts.tokens[0]

        # Three failures, then tries after pauses that double.
        assert [at for at, is_allowed in enumerate(allowed) if is_allowed] == [0, 1, 2, 66, 194]
        assert hybrid.may_draft("suffix")
        assert not hybrid.may_draft("head")

    def test_a_head_that_is_mended_is_used_again(self) -> None:
        hybrid = drafter(None)
        for _ in range(3):
            hybrid.step(["r"], [[1]], begin(), head=broken_head)
        while not hybrid.allows_head():
            hybrid.step(["r"], [[1]], begin())

        assert hybrid.step(["r"], [[1]], begin(), head=Head()).tokens == [[7, 8, 9]]
        assert hybrid.may_draft("head")


def test_an_error_before_a_step_counts_like_one_in_it() -> None:
    hybrid = drafter(suffix())
    hybrid.step(["r"], [[1]], begin())

    drafts = hybrid.fail(KeyError("r"), ["r", "unknown"])

    assert (drafts.tokens, drafts.origins) == ([[], []], [None, None])
    assert hybrid.counters.fallbacks == {"KeyError": 1}
    assert not hybrid.running


def test_errors_before_steps_do_not_prolong_a_pause() -> None:
    hybrid = drafter(suffix())
    for _ in range(40):
        hybrid.fail(KeyError("r"), ["r"])
    assert not hybrid.may_draft("native")

    for _ in range(64):
        hybrid.step(["r"], [[1]], begin())

    assert hybrid.may_draft("native")


def test_an_error_at_the_end_of_a_request_is_counted() -> None:
    index = Failing()
    hybrid = drafter(index)
    hybrid.step(["r"], [[1]], begin())
    index.errors["finish"] = RuntimeError("broken")

    hybrid.end(["r"], keep=True)

    assert hybrid.counters.fallbacks == {"RuntimeError": 1}
    assert not hybrid.running


def test_repeated_errors_pause_speculation_and_a_success_resumes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hybrid = drafter(suffix())
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            hybrid.step(["r"], [[2**40]], begin())
    assert not hybrid.may_draft("suffix")
    assert not hybrid.running

    plain = 0
    while not hybrid.step(["r"], [[11, 12]], begin()).tokens[0]:
        plain += 1

    assert plain == hybrid.counters.decisions["paused"] == 63
    assert hybrid.may_draft("suffix")
    assert [record.message for record in caplog.records] == [
        "speculation failed; the affected requests decode without drafts",
        "speculation is paused after repeated errors; requests decode without its drafts",
    ]


def test_a_request_at_another_position_is_the_same() -> None:
    """Positions change from step to step, and names come as equal strings."""
    hybrid = drafter(suffix())
    hybrid.step(["a", "b", "c"], [[1, 2, 11], [3], [5, 6, 12]], begin())
    hybrid.end(["b"], keep=False)

    drafts = hybrid.step(["c", "".join(["", "a"]), "b"], [[5], [1], [11]], begin())

    assert [tokens[:2] for tokens in drafts.tokens] == [[6, 12], [2, 11], [12, 13]]


def test_wrong_arguments_empty_the_drafts() -> None:
    hybrid = drafter(suffix())

    assert hybrid.step(["a", "b"], [[1]], begin()).tokens == [[], []]
    assert hybrid.step(["a"], [["one"]], begin()).tokens == [[]]  # type: ignore[list-item]
    assert hybrid.step(["a"], [[2**40]], begin()).tokens == [[]]
    assert hybrid.counters.fallbacks == {"ValueError": 2, "TypeError": 1}


def test_a_fixed_price_holds_for_requests_without_one_of_their_own() -> None:
    gate = Gate(DEAR)
    hybrid = Drafter(suffix(), gate, most=8, fixed_price=0.4)
    controls = {"none": Control(), "own": Control(price=0.2)}

    drafts = hybrid.step(
        ["none", "own"],
        [[11], [11]],
        lambda name: begin(controls[name])(name),
        verified=[0, 0],
    ).tokens

    assert 0 < len(drafts[0]) < len(drafts[1])
    assert gate.price > 0.9


def test_a_draft_behind_a_step_in_flight_follows_all_that_it_may_yield() -> None:
    hybrid = drafter(suffix(), most=3)
    first = hybrid.step(["r"], [[11, 12]], begin(left=20))
    assert first.tokens == [[13, 14, 15]]

    # 11, 12 are known; the step in flight verifies 13, 14, 15 and yields 16 if they are right.
    second = hybrid.step(["r"], [[13]], begin(), verified=[0], in_flight=InFlight([0]))
    third = hybrid.step(["r"], [[14]], begin(), verified=[0], in_flight=InFlight([3]))

    assert second.tokens == [[15, 16, 17]]  # 14 is what the step in flight yields
    assert third.tokens == [[19, 20, 11]]  # after the prompt's end comes its beginning


def test_where_the_index_now_disagrees_its_own_text_is_followed() -> None:
    """What is in flight was drafted before the newest token was known."""
    hybrid = drafter(suffix(), most=3)
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 30, 3, 4, 40, 41, 42, 43, 44]
    hybrid.step(["r"], [[2, 3, 4]], begin(prompt=prompt))
    in_flight = hybrid.step(["r"], [[5]], begin(), verified=[0])
    assert in_flight.tokens == [[6, 7, 8]]

    # The text goes on otherwise than was drafted; the step in flight will find that out.
    drafts = hybrid.step(["r"], [[30, 3, 4]], begin(), verified=[0], in_flight=InFlight([3]))

    assert drafts.tokens[0][:2] != [6, 7]
    assert drafts.tokens == [[41, 42, 43]]


def test_nothing_is_drafted_for_a_sequence_that_the_step_in_flight_lacks() -> None:
    hybrid = drafter(suffix())

    drafts = hybrid.step(
        ["a", "b"], [[11, 12], [11, 12]], begin(), verified=[0, 0], in_flight=InFlight([-1, 0])
    )

    assert drafts.tokens == [[], [14, 15, 16, 17, 18, 19, 20, 11]]


def test_a_draft_behind_a_step_in_flight_leaves_room_for_both_next_tokens() -> None:
    drafts = drafter(suffix()).step(
        ["r"], [[11, 12]], begin(left=6), verified=[0], in_flight=InFlight([0])
    )

    assert drafts.tokens == [[14, 15]]  # 6 less the two sampled, less two to come


SOURCES = pytest.mark.parametrize("source", [NATIVE, HEAD])


def on_device(source: int) -> Drafter:
    """A drafter without an index whose head, or vLLM's drafter, makes up to three tokens."""
    most = {"native_most": 3} if source == NATIVE else {"head_most": 3}
    return Drafter(None, Gate([(1, 1.0), (8, 1.01)]), most=8, **most)


@SOURCES
def test_drafts_are_made_on_the_device_behind_a_step_in_flight(
    source: int,
) -> None:
    hybrid = on_device(source)

    drafts = hybrid.step(
        ["a", "b", "c"],
        [[11], [11], [11]],
        lambda name: begin(
            Control(head=name != "b", native=name != "b"), left=10 if name == "a" else 5
        )(name),
        verified=[0, 0, 0],
        in_flight=InFlight([0, 0, -1], (source, 3)),
    )

    assert drafts.tokens == [[ON_DEVICE] * 3, [], []]
    assert drafts.origins == [Origin(source), None, None]
    assert hybrid.counters.decisions["drafted"] == 1


@SOURCES
@pytest.mark.parametrize("accepted", [0, 2, 3])
def test_drafts_on_the_device_are_as_long_as_those_before_were_right(
    source: int, accepted: int
) -> None:
    hybrid = on_device(source)
    verified = [0, 0]  # of the step that is known, and of the one in flight
    for _ in range(60):
        new = [9] * (1 + min(accepted, verified[0]))
        ahead = InFlight([verified[1]], (source, 3))
        drafts = hybrid.step(["r"], [new], begin(left=999), verified=verified[:1], in_flight=ahead)
        verified = [verified[1], len(drafts.tokens[0])]

    assert verified[1] == accepted


@SOURCES
def test_the_index_drafts_where_it_is_worth_more_than_what_is_made_on_the_device(
    source: int,
) -> None:
    most = {"native_most": 2} if source == NATIVE else {"head_most": 2}
    hybrid = Drafter(suffix(), Gate([(1, 1.0), (8, 1.01)]), most=8, **most)

    drafts = hybrid.step(
        ["known", "new"],
        [[11, 12], [30]],
        lambda name: begin(prompt=list(range(40, 60)) if name == "new" else PROMPT)(name),
        verified=[0, 0],
        in_flight=InFlight([0, 0], (source, 2)),
    )

    assert drafts.tokens == [[14, 15, 16, 17, 18, 19, 20, 11], [ON_DEVICE] * 2]


def test_the_head_runs_on_the_device_while_that_pays() -> None:
    cheap, dear = (
        Drafter(None, Gate([(1, 1.0), (8, 1.01)], [(1, cost)]), most=8, head_most=3)
        for cost in (0.01, 5.0)
    )

    found = []
    for one in (cheap, dear):
        found.append(one.head_tokens())
        one.step(["r"], [[11]], begin(), verified=[0])
        found.append(one.head_tokens())

    assert found == [0, 3, 0, 0]


def test_a_price_of_its_own_has_the_head_run_on_the_device() -> None:
    dear = Gate([(1, 1.0), (8, 1.01)], [(1, 5.0)])
    one = Drafter(None, dear, most=8, head_most=3, fixed_price=0.0)
    one.step(["r"], [[11]], begin(), verified=[0])

    assert one.head_tokens() == 3


def test_a_head_that_is_paused_after_errors_does_not_run_on_the_device() -> None:
    one = Drafter(None, Gate([(1, 1.0), (8, 1.01)], [(1, 0.01)]), most=8, head_most=3)
    one.step(["r"], [[11]], begin(), verified=[0])
    for _ in range(3):
        one.fail_head(RuntimeError("made up"))

    assert one.head_tokens() == 0


def test_trust_compares_each_step_with_what_was_stated_for_it() -> None:
    """Two drafts of a request are unknown at once; each is judged by its own tokens."""
    hybrid = drafter(suffix(), most=2)
    text = [11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
    at, drafts = 1, hybrid.step(["r"], [text[:1]], begin(prompt=text * 8), verified=[0])
    known = list(drafts.tokens[0])
    for _ in range(200):
        later = hybrid.step(
            ["r"],
            [[text[at % 10]]],
            begin(),
            verified=[len(known)],
            in_flight=InFlight([len(drafts.tokens[0])]),
        )
        known, drafts, at = list(drafts.tokens[0]), later, at + 1

    assert hybrid.gate.trust < 0.9  # drafts were verified, and none of their tokens were kept
