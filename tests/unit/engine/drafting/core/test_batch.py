"""Which source drafts for a sequence: the real policy, the real index, scripted heads."""

from itertools import pairwise

import numpy as np
import pytest

from engine.drafting import Beginning, Control
from engine.drafting.origin import HEAD, NATIVE, SUFFIX, Origin
from engine.policy import Gate, Profile
from tests.unit.engine.drafting.scripted import (
    CHEAP,
    FREE,
    PROMPT,
    Head,
    Verified,
    begin,
    drafter,
    suffix,
)
from tests.unit.engine.drafting.world import World

STEEP: Profile = [(1, 1.0), (11, 4.0)]
PHRASE = [5, 7, 8, 9, 4, 3, 2, 1]


class TestNativeDrafter:
    """vLLM's own drafter, judged by how often its tokens were accepted."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step(["r"], [[1]], begin(), native=[[7, 8]])

        assert (drafts.tokens, drafts.origins) == ([[7, 8]], [Origin(NATIVE)])

    def test_its_drafts_end_at_the_limits_of_a_request(self) -> None:
        drafts = drafter(None).step(
            ["a", "b", "c"], [[], [1], [1]], begin(left=3), native=[[1, 2], [3, 4], []]
        )

        assert drafts.tokens == [[], [3], []]

    @pytest.mark.parametrize("control", [Control(native=False), Control(most=0)])
    def test_a_request_can_rule_it_out(self, control: Control) -> None:
        hybrid = drafter(None)

        asked = []
        for _ in range(20):
            assert hybrid.step(["r"], [[1]], begin(control), native=[[7]]).tokens == [[]]
            asked.append(hybrid.native_tokens())

        assert asked == [3] * 8 + [0] * 12  # the first eight are tries

    @pytest.mark.parametrize(("written", "winner"), [([11, 12, 13], SUFFIX), ([21], NATIVE)])
    def test_the_draft_that_is_worth_more_is_taken(self, written: list[int], winner: int) -> None:
        prompt = [*PROMPT, 21, 1, 21, 2, 21, 3, 21, 4]  # nobody knows what follows 21

        drafts = drafter(suffix(), most=3).step(
            ["r"], [written], begin(prompt=prompt), native=[[7, 8]]
        )

        assert drafts.origins == [Origin(winner)]

    def test_it_is_asked_while_it_may_pay_and_then_now_and_then(self) -> None:
        hybrid = drafter(None, CHEAP)
        asked = [hybrid.native_tokens()]
        lengths = []
        for _ in range(200):
            native = [[7, 8, 9] if asked[-1] else []]
            lengths.append(len(hybrid.step(["r"], [[1]], begin(), native=native).tokens[0]))
            asked.append(hybrid.native_tokens())

        assert lengths[0] > 0
        assert lengths[60] == 0
        assert asked[0] == 3
        assert [at for at, tokens in enumerate(asked) if tokens][-1] > 100
        assert sum(asked[-64:]) == 3

    def test_a_proposal_that_is_not_drafted_is_scored_too(self) -> None:
        hybrid = drafter(None, CHEAP)
        for token in [1] * 60 + [7] * 40:  # wrong at first, then right every time
            drafts = hybrid.step(["r"], [[token]], begin(), native=[[7, 8, 9]])

        assert drafts.tokens[0][:1] == [7]


class TestDraftHead:
    """A pass takes time, so it runs for the sequences that gain more than that."""

    def test_it_drafts_alone(self) -> None:
        drafts = drafter(None).step(["r"], [[1]], begin(), head=Head())

        assert (drafts.tokens, drafts.origins) == ([[7, 8, 9]], [Origin(HEAD)])

    def test_it_runs_only_for_sequences_that_can_use_it(self) -> None:
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

    def test_a_pass_that_costs_more_than_it_gains_is_left_out(self) -> None:
        ran = {}
        for seconds in (0.1, 2.5):
            head = Head(confidence=0.7)
            hybrid = drafter(None, passes=[(1, seconds)])
            for _ in range(100):
                hybrid.step(list("abcd"), [[7, 8, 1]] * 4, begin(), head=head)
            ran[seconds] = len(head.ran)

        assert ran == {0.1: 100, 2.5: 12}  # eight first tries, then one in 16 steps

    @pytest.mark.parametrize(
        ("control", "left", "tokens", "origin"),
        [
            (Control(), 100, [7, 8, 9, 5, 6], Origin(HEAD, SUFFIX, 3)),
            (Control(suffix=False), 100, [7, 8, 9], Origin(HEAD)),
            (Control(), 4, [7, 8], Origin(HEAD)),
        ],
        ids=["index", "without the index", "no room"],
    )
    def test_the_index_continues_its_draft(
        self, control: Control, left: int, tokens: list[int], origin: Origin
    ) -> None:
        prompt = [*PROMPT, 7, 8, 9, 5, 6]

        drafts = drafter(suffix(), most=5).step(
            ["r"], [[1]], begin(control, left=left, prompt=prompt), head=Head()
        )

        assert (drafts.tokens, drafts.origins) == ([tokens], [origin])

    def test_the_index_does_not_continue_where_it_cannot_pay(self) -> None:
        prompt = [9, 1, 9, 2, 9, 3, 9, 4, *PROMPT]

        drafts = drafter(suffix(), STEEP).step(["r"], [[1]], begin(prompt=prompt), head=Head())

        assert drafts.origins == [Origin(HEAD)]

    def test_a_pass_runs_if_its_tokens_pay_only_together(self) -> None:
        """Eight sequences have room for eight more tokens in a step of the same time.

        The price is then near the survival of each, so that by itself none gains much.
        """
        stairs: Profile = [(1, 1.0), (16, 1.0), (17, 2.0), (32, 2.0)]
        gate = Gate(stairs, [(1, 0.5)], edges=(16, 32))
        hybrid, head = Verified(None, gate, most=8, head_most=3), Head(confidence=0.7)
        for _ in range(200):
            hybrid.step(list("abcdefgh"), [[7, 1]] * 8, begin(), head=head)

        assert len(head.ran) == 200

    def test_a_drafter_that_is_always_wrong_runs_only_now_and_then(self) -> None:
        hybrid, head = drafter(None, passes=[(1, 0.1)]), Head()
        ran = []
        for _ in range(600):
            before = len(head.ran)
            hybrid.step(["r"], [[1]], begin(), head=head)
            ran.append(len(head.ran) > before)

        assert ran[0]
        assert sum(ran[-384:]) == 8

    def test_a_drafter_that_becomes_right_is_trusted_again(self) -> None:
        hybrid, head = drafter(None, passes=[(1, 0.1)]), Head()
        for _ in range(100):
            hybrid.step(["r"], [[1]], begin(), head=head)
        for _ in range(1000):
            drafts = hybrid.step(["r"], [[7, 8, 9]], begin(), head=head)

        assert drafts.tokens == [[7, 8, 9]]

    def test_confident_proposals_that_come_true_are_drafted_and_others_not(self) -> None:
        hybrid = drafter(None, [(1, 1.0), (11, 3.0)])
        lengths = {}
        for _ in range(200):
            for sure in (0.9, 0.3):
                head = Head(confidence=sure)
                lengths[sure] = len(hybrid.step(["r"], [[1]], begin(), head=head).tokens[0])
                hybrid.step(["r"], [[7, 8, 9] if sure > 0.5 else [1]], begin())

        assert lengths[0.9] > 1
        assert lengths[0.3] <= 1


class TestSecondOpinion:
    """What the head's proposal changes about a draft of the index."""

    def drafted(self, cost: Profile, head: Head | None) -> list[int]:
        hybrid = drafter(suffix(), cost)
        return hybrid.step(["r"], [[5]], begin(prompt=PHRASE), head=head).tokens[0]

    def test_agreement_makes_a_draft_longer_and_difference_shorter(self) -> None:
        alone = self.drafted(STEEP, None)
        agreed = self.drafted(STEEP, Head([7, 8, 9]))
        differed = self.drafted(CHEAP, Head([6], confidence=0.95))

        assert agreed == [*PHRASE[1:], 5][: len(agreed)]
        assert len(agreed) > len(alone) > 0
        assert len(differed) < len(self.drafted(CHEAP, None))

    def test_which_of_them_is_right_when_they_differ_is_learnt(self) -> None:
        """The text always goes on as the head says, and never as the index does."""
        hybrid = drafter(suffix(), CHEAP)
        origins = []
        for number in range(100):
            name = f"request {number}"
            start = begin(Control(prediction=(1, 2, 3, 4)), prompt=[50])
            head = Head([7, 8, 9], confidence=0.4)
            origins += hybrid.step([name], [[1]], start, head=head).origins
            hybrid.step([name], [[7, 8, 9, 60 + number]], start)
            hybrid.end([name], keep=False)

        assert origins[0] is not None
        assert origins[0].first != HEAD
        assert origins[-1] == Origin(HEAD)

    def test_a_draft_of_vllms_own_drafter_is_not_changed(self) -> None:
        """Both use the target's state, so their agreement says little."""
        drafts = [
            drafter(None, CHEAP).step(["r"], [[1]], begin(), native=[[1, 2, 3]], head=head)
            for head in (None, Head([5], confidence=0.01))
        ]

        assert drafts[0] == drafts[1]
        assert drafts[0].origins == [Origin(NATIVE)]

    def test_the_pass_is_for_the_sequences_that_gain_most(self) -> None:
        """It gains little beside a copy, and a second sequence makes the pass dear."""
        prompts = {"copy": [7, 8, 9, 10] * 40, "prose": PROMPT}
        hybrid = drafter(suffix(), passes=[(1, 0.01), (2, 0.5)])
        head = Head()
        for number in range(100):
            hybrid.step(
                ["copy", "prose"],
                [[7, 8, 9, 10, 7, 8, 9, 10], [7, 8, 9, 1000 + number]],
                lambda name: begin(prompt=prompts[name])(name),
                head=head,
            )

        assert head.ran[-50:].count([1]) > 40


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "cost", [[(1, 1.0), (101, 3.0)], STEEP, FREE], ids=["cheap", "dear", "free"]
)
def test_in_a_random_world_drafts_keep_to_all_limits(cost: Profile, seed: int) -> None:
    worlds = [World(seed) for _ in range(2)]
    drafters = [drafter(suffix(), cost, most=6) for _ in worlds]

    played = [world.play(hybrid) for world, hybrid in zip(worlds, drafters, strict=True)]

    assert played[0] == played[1], "same calls, same drafts"
    assert not drafters[0].counters.fallbacks
    kinds = set()
    for sequence in played[0]:
        tokens, origin, control = sequence.tokens, sequence.origin, sequence.control
        assert len(tokens) <= min(6, sequence.left - 1 if sequence.left > 1 else 0)
        assert bool(tokens) == (origin is not None)
        if control.most is not None:
            assert len(tokens) <= control.most
        if origin is None:
            continue
        kinds.add(origin.first)
        assert control.suffix or {origin.first, origin.second} <= {HEAD, NATIVE, 0}
        assert control.head or origin.first != HEAD
        assert control.native or origin.first != NATIVE
        assert not origin.second or origin.first_length < len(tokens)
        if origin.first == NATIVE:
            assert tokens == sequence.native[: len(tokens)]
        if origin.first == HEAD:
            size = origin.first_length or len(tokens)
            assert tokens[:size] == sequence.head[:size]
    assert kinds >= {SUFFIX, HEAD, NATIVE}, "every source must have drafted"
    assert all(asked == sorted(asked) for asked in worlds[0].asked)
    assert all(one < other for asked in worlds[0].asked for one, other in pairwise(asked))
