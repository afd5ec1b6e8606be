"""Which source drafts for a row: the real policy over scripted sources, and against a twin."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.drafting import Beginning, Control, Drafter, Source, SuffixSource
from engine.drafting.origin import HEAD, NATIVE, SUFFIX, Origin
from engine.policy import SUFFIX as BY_SUFFIX
from engine.policy import Gate, Limits, Load, Profile
from engine.suffix import SuffixIndex
from tests.unit.engine.drafting.scripted import (
    FREE,
    PROMPT,
    Head,
    Scripted,
    begin,
    drafter,
)
from tests.unit.engine.drafting.twin import Twin
from tests.unit.engine.drafting.world import Dice, OnPython, World

CURVES: dict[str, Profile] = {
    "cheap": [(1, 1.0), (101, 3.0)],
    "dear": [(1, 1.0), (9, 1.3), (17, 2.5), (65, 12.0)],
}


class TestNativeDrafter:
    """What vLLM's own drafter proposes, judged by what was accepted of it before."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step(["r"], [[1]], begin(), native=[[7, 8]])

        assert (drafts.tokens, drafts.origins) == ([[7, 8]], [Origin(NATIVE)])

    def test_rows_and_limits(self) -> None:
        drafts = drafter(None).step(
            ["a", "b", "c"], [[], [1], [1]], begin(left=3), native=[[1, 2], [3, 4], []]
        )

        assert drafts.tokens == [[], [3], []]

    def test_a_mode_can_rule_it_out(self) -> None:
        control = Control(native=False)

        assert drafter(None).step(["r"], [[1]], begin(control), native=[[7]]).tokens == [[]]

    @pytest.mark.parametrize(("survival", "winner"), [(0.99, SUFFIX), (0.05, NATIVE)])
    def test_the_draft_that_is_worth_more_is_taken(
        self, source: Scripted, survival: float, winner: int
    ) -> None:
        source.drafts["r"] = ([5, 6], [survival, survival])

        drafts = drafter(source).step(["r"], [[1]], begin(), native=[[7, 8]])

        assert drafts.origins == [Origin(winner)]
        assert drafts.tokens == [[5, 6] if winner == SUFFIX else [7, 8]]

    def test_what_is_always_rejected_is_soon_not_drafted(self) -> None:
        hybrid = drafter(None, [(1, 1.0), (11, 2.0)])

        lengths = [
            len(hybrid.step(["r"], [[1]], begin(), native=[[7, 8, 9]]).tokens[0]) for _ in range(60)
        ]

        assert lengths[0] > 0
        assert lengths[-1] == 0

    def test_what_is_not_used_is_scored_in_hindsight(self) -> None:
        """It would have been right all the time, so it is trusted again without a try."""
        hybrid = drafter(None, [(1, 1.0), (11, 2.0)])
        for _ in range(60):
            hybrid.step(["r"], [[1]], begin(), native=[[7, 8, 9]])

        for _ in range(40):
            drafts = hybrid.step(["r"], [[7]], begin(), native=[[7, 8, 9]])

        assert drafts.tokens[0][:1] == [7]

    def test_it_is_asked_while_it_may_be_worth_it_and_now_and_then_later(self) -> None:
        hybrid = drafter(None, [(1, 1.0), (11, 2.0)])
        asked = [hybrid.native_tokens()]
        for _ in range(200):
            hybrid.step(["r"], [[1]], begin(), native=[[7, 8, 9] if asked[-1] else []])
            asked.append(hybrid.native_tokens())

        assert asked[0] == 3
        assert set(asked) == {0, 3}
        assert [at for at, tokens in enumerate(asked) if tokens][-1] > 100
        assert sum(asked[-64:]) == 3

    @pytest.mark.parametrize("control", [Control(native=False), Control(most=0)])
    def test_nobody_wants_it(self, control: Control) -> None:
        hybrid = drafter(None)

        hybrid.step(["r"], [[1]], begin(control), native=[[]])

        assert hybrid.native_tokens() == 0


class TestDraftHead:
    """A pass that costs time: run for the rows where it brings more than that."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step(["r"], [[1]], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8, 9]], [Origin(HEAD)])

    def test_only_rows_that_may_use_it_are_run(self) -> None:
        head = Head()

        drafts = drafter(None).step(
            ["new", "full", "a", "off"],
            [[], [1], [1], [1]],
            lambda name: Beginning(
                np.array(PROMPT, np.int32),
                Control(head=name != "off"),
                left=2 if name == "full" else 100,
            ),
            head=head,
        )

        assert head.ran == [[2]]
        assert drafts.tokens == [[], [], [7, 8, 9], []]

    def test_room_cuts_its_draft(self, source: Scripted) -> None:
        source.more["r"] = ([5], [0.9])

        drafts = drafter(source).step(["r"], [[1]], begin(left=4), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8]], [Origin(HEAD)])
        assert source.gone_on == []

    def test_rows_to_which_it_brings_nothing_beside_a_draft_are_left_out(
        self, source: Scripted
    ) -> None:
        """It agrees with a draft that is sure anyway; a second row costs as much as ten passes."""
        source.drafts["copy"] = ([7, 8, 9, 10], [0.99] * 4)
        limits = Limits(min_acceptance_ratio=0.0)
        gate = Gate(FREE, [(1, 0.01), (2, 0.1)], limits=limits)
        hybrid = Drafter(source, gate, most=8, head_most=3)
        head = Head()

        for _ in range(100):
            drafts = hybrid.step(
                ["copy", "prose"], [[7, 8, 9, 10, 1], [7, 8, 9, 1]], begin(), head=head
            )

        assert head.ran[0] == [0, 1]
        assert head.ran[-50:] == [[1]] * 50
        assert drafts.origins == [Origin(SUFFIX), Origin(HEAD)]

    def test_a_pass_that_costs_more_than_it_brings_is_left_out(self, source: Scripted) -> None:
        head = Head()

        dear = drafter(source, head_time=2.0).step(["r"], [[1]], begin(), head=head)
        assert (dear.tokens, head.ran) == ([[]], [])

        # Four rows share the pass, and the time is worth the same tokens to each.
        shared = drafter(source, head_time=0.8).step(list("abcd"), [[1]] * 4, begin(), head=head)
        assert shared.tokens == [[7, 8, 9]] * 4

    def test_the_suffix_index_goes_on_where_it_ends(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.9, 0.8])

        drafts = drafter(source).step(["r"], [[1]], begin(), head=Head())

        assert drafts.tokens == [[7, 8, 9, 5, 6]]
        assert drafts.origins == [Origin(HEAD, SUFFIX, 3)]
        ((request, tokens, survival, most),) = source.gone_on
        assert (request, tokens, most) == ("r", [7, 8, 9], 5)
        assert 0.0 < survival < 1.0

    def test_what_is_grafted_is_cut_at_the_price_too(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.0001, 0.0001])

        drafts = drafter(source).step(["r"], [[1]], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8, 9]], [Origin(HEAD)])

    def test_a_request_that_wants_no_suffix_drafts_gets_no_graft(self, source: Scripted) -> None:
        source.more["r"] = ([5, 6], [0.9, 0.8])

        drafts = drafter(source).step(["r"], [[1]], begin(Control(suffix=False)), head=Head())

        assert drafts.tokens == [[7, 8, 9]]

    def test_what_is_always_wrong_is_soon_not_run_but_now_and_then(self) -> None:
        hybrid = drafter(None, head_time=0.1)
        head = Head()
        ran = []
        for _ in range(600):
            before = len(head.ran)
            hybrid.step(["r"], [[1]], begin(), head=head)
            ran.append(len(head.ran) > before)

        assert ran[0]
        assert sum(ran[-384:]) == 8

    def test_it_is_trusted_again_when_it_is_right(self) -> None:
        hybrid = drafter(None, head_time=0.1)
        wrong = Head()
        for _ in range(100):
            hybrid.step(["r"], [[1]], begin(), head=wrong)

        right = Head()
        tokens = [
            hybrid.step(["r"], [[7, 8, 9]], begin(), head=right).tokens[0] for _ in range(1000)
        ]

        assert tokens[-1] == [7, 8, 9]

    def test_confidence_tells_good_drafts_from_bad_ones(self) -> None:
        """Sure drafts come true and unsure ones do not: in the end only the sure are made."""
        hybrid = drafter(None, [(1, 1.0), (11, 3.0)])
        lengths = {}
        for _ in range(200):
            for sure in (0.9, 0.3):
                head = Head(confidence=sure)
                lengths[sure] = len(hybrid.step(["r"], [[1]], begin(), head=head).tokens[0])
                # What is sampled next scores this draft.
                hybrid.step(["r"], [[7, 8, 9] if sure > 0.5 else [1]], begin())

        assert lengths[0.9] > 1
        assert lengths[0.3] <= 1

    def test_an_error_in_the_head_makes_the_step_plain(self, source: Scripted) -> None:
        def broken(rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
            raise RuntimeError("broken")

        hybrid = drafter(source)

        assert hybrid.step(["r"], [[1]], begin(), head=broken).tokens == [[]]
        assert hybrid.counters.fallbacks == {"RuntimeError": 1}
        assert hybrid.step(["r"], [[1]], begin(), head=Head()).tokens == [[7, 8, 9]]


class TestSecondOpinion:
    """What the head's guess changes of a draft that the suffix source made."""

    CHEAP: Profile = ((1, 1.0), (11, 2.0))
    DEAR: Profile = ((1, 1.0), (11, 4.0))

    def test_a_draft_that_it_agrees_with_is_drafted_further(self, source: Scripted) -> None:
        source.drafts["r"] = ([7, 8, 9, 4, 5], [0.5, 0.3, 0.2, 0.15, 0.1])

        alone = drafter(source, self.DEAR).step(["r"], [[1]], begin())
        agreed = drafter(source, self.DEAR).step(["r"], [[1]], begin(), head=Head())

        assert len(agreed.tokens[0]) > len(alone.tokens[0]) > 0
        assert agreed.origins == [Origin(SUFFIX)]

    def test_one_that_it_differs_from_is_drafted_less_far(self, source: Scripted) -> None:
        source.drafts["r"] = ([1, 2, 3, 4, 5, 6], [0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
        alone, judged = drafter(source, self.DEAR), drafter(source, self.DEAR)

        lengths = []
        for hybrid, head in ((alone, None), (judged, Head([7], confidence=0.5))):
            drafts = hybrid.step(["r"], [[1]], begin(), head=head)
            assert drafts.origins == [Origin(SUFFIX)]
            lengths.append(len(drafts.tokens[0]))

        assert lengths[1] < lengths[0]

    def test_who_is_right_where_they_differ_is_learnt(self, source: Scripted) -> None:
        source.drafts["r"] = ([1, 2, 3, 4], [0.8, 0.7, 0.6, 0.5])
        hybrid, head = drafter(source, self.CHEAP), Head([7, 8, 9], confidence=0.4)

        origins = [
            hybrid.step(["r"], [[7, 8, 9, 5]], begin(), head=head).origins[0] for _ in range(100)
        ]

        assert origins[0] == Origin(SUFFIX)
        assert origins[-1] == Origin(HEAD)

    def test_what_both_begin_with_is_not_looked_up_again(self, source: Scripted) -> None:
        source.drafts["r"] = ([7, 8, 9, 4], [0.9, 0.8, 0.7, 0.6])
        source.more["r"] = ([5], [0.9])

        drafts = drafter(source).step(["r"], [[1]], begin(), head=Head())

        assert source.gone_on == []
        assert drafts.tokens == [[7, 8, 9, 4]]

    def test_a_draft_that_is_not_known_to_its_end_is_none_behind_that(
        self, source: Scripted
    ) -> None:
        source.drafts["r"] = ([7, 8, 9, 4], [0.9, 0.8])

        drafts = drafter(source).step(["r"], [[1]], begin(), head=Head())

        assert drafts.tokens == [[7, 8, 9]]
        assert drafts.origins == [Origin(HEAD)]

    def test_a_draft_of_vllms_own_drafter_is_not_judged(self) -> None:
        """Both look at the same state: that they agree says little."""
        drafts = [
            drafter(None, self.CHEAP).step(["r"], [[1]], begin(), native=[[1, 2, 3]], head=head)
            for head in (None, Head([5], confidence=0.01))
        ]

        assert drafts[0] == drafts[1]
        assert drafts[0].origins == [Origin(NATIVE)]

    def test_the_pass_is_for_the_rows_that_it_brings_most(self, source: Scripted) -> None:
        """What it brought beside sure drafts is little, beside others much; a row costs between."""
        for name, chance in (("sure", 0.99), ("unsure", 0.3)):
            source.drafts[name] = ([7, 8, 9], [chance] * 3)
        limits = Limits(min_acceptance_ratio=0.0)
        gate = Gate(self.CHEAP, [(1, 0.05), (2, 0.1)], limits=limits)
        hybrid = Drafter(source, gate, most=8, head_most=3)
        head = Head()

        for _ in range(200):
            hybrid.step(["sure", "unsure"], [[7, 8, 9, 1]] * 2, begin(), head=head)

        assert head.ran[0] == [0, 1]
        assert head.ran[-1] == [1]


class TestShutSource:
    """One of which so much was refused that its floor is above every survival."""

    def hybrid(self, source: Source, *, is_shut: bool) -> Drafter:
        gate = Gate(CURVES["dear"], [(1, 1e-9)], limits=Limits(min_acceptance_ratio=0.4))
        gate.begin(Load(8))
        gate.settle([])
        for _ in range(70 if is_shut else 0):
            gate.learn_source(BY_SUFFIX, 100, 0)
        return Drafter(source, gate, most=6, head_most=3)

    def drafts(self, hybrid: Drafter, head: Head | None = None) -> list[list[int]]:
        """Of a request that copies its prompt."""
        text = [*range(40)] * 3
        return [
            hybrid.step(
                ["r"],
                [[token]],
                lambda _: Beginning(np.array(text, np.int32), Control(), 10_000),
                head=head,
            ).tokens[0]
            for token in text
        ]

    @pytest.mark.parametrize("kind", ["index", "index through Python"])
    def test_nothing_of_it_is_drafted_and_nothing_fails(self, kind: str) -> None:
        def source() -> Source:
            return SuffixSource(SuffixIndex(1 << 24, salt=1)) if kind == "index" else OnPython()

        shut = self.hybrid(source(), is_shut=True)

        assert any(self.drafts(self.hybrid(source(), is_shut=False)))
        assert not any(self.drafts(shut))
        assert shut.gate.least(BY_SUFFIX) > 1.0
        assert not shut.counters.fallbacks

    @pytest.mark.parametrize("kind", ["index", "index through Python"])
    def test_it_does_not_go_on_behind_the_head(self, kind: str) -> None:
        source = SuffixSource(SuffixIndex(1 << 24, salt=1)) if kind == "index" else OnPython()
        shut = self.hybrid(source, is_shut=True)

        drafts = self.drafts(shut, Head([7, 8], confidence=0.99))

        assert max(map(len, drafts)) == 2
        assert not shut.counters.fallbacks

    def test_it_is_told_what_was_generated_and_learns_from_it(self) -> None:
        index = SuffixIndex(1 << 24, salt=1)
        shut = self.hybrid(SuffixSource(index), is_shut=True)

        def survival() -> float:
            index.start("new", "default", [*range(40)] * 2)
            index.extend("new", [0])
            draft = index.propose("new", 1, min_survival=0.0)
            index.finish("new", keep=False)
            return draft.survival[0]

        before = survival()
        for _ in range(4):
            self.drafts(shut)

        assert survival() > before


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("kind", ["index", "index through Python", "dice"])
def test_the_core_drafts_what_plain_python_drafts(kind: str, curve: str, seed: int) -> None:
    def source() -> Source:
        if kind == "index":
            return SuffixSource(SuffixIndex(1 << 24, salt=1))
        return Dice(seed) if kind == "dice" else OnPython()

    most = {"most": 6, "native_most": 3, "head_most": 3}
    passes = [(1, 0.11), (8, 0.18)]
    limits = Limits(min_acceptance_ratio=0.4)
    twin = Twin(source(), CURVES[curve], passes, **most)
    gate = Gate(CURVES[curve], passes, limits=limits)
    drafter = Drafter(source(), gate, **most)

    expected = World(seed).steps(twin)
    found = World(seed).steps(drafter)

    assert found == expected
    assert gate.price == pytest.approx(twin.price)
    assert not drafter.counters.fallbacks
    origins = {origin[:2] for drafts, _ in found for origin in drafts.origins if origin is not None}
    assert len(origins) >= 4, "too little was drafted to tell"
