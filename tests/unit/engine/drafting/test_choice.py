"""Which source drafts for a row, seen from the drafter: the real policy over scripted sources."""

from collections.abc import Sequence

import numpy as np
import pytest

from engine.drafting import Beginning, Control, Row
from engine.drafting.origin import HEAD, NATIVE, SUFFIX, Origin
from engine.policy import StepCost
from tests.unit.engine.drafting.scripted import PROMPT, Head, Scripted, begin, drafter


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
        assert sum(ran[-160:]) == 10

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
