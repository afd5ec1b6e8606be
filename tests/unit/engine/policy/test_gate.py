import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.policy import Gate, Load, Profile

LINEAR = [(1, 1.0), (101, 6.0)]  # 0.05 of a one-token step for each further token
FREE = [(1, 1.0)]
KNEE: Profile = [(1, 1.0), (64, 1.0), (128, 3.0)]
DEAR: Profile = [(1, 1.0), (2, 2.0)]
BUMPY = [(1, 1.0), (4, 1.1), (6, 1.5), (12, 4.0)]
CONCAVE = [(1, 10.0), (2, 12.0), (8, 15.0), (32, 21.0)]
STAIRS = [(1, 10.0), (8, 10.0), (9, 14.0), (16, 14.0), (17, 18.0)]
SURVIVAL = [0.9, 0.55, 0.5, 0.3, 0.2, 0.1, 0.05]


def gate(points: Profile = LINEAR, *, max_batch_size: int | None = None) -> Gate:
    return Gate(points, [(1, 0.5), (5, 0.7)], max_batch_size=max_batch_size)


def asked(gate: Gate, load: Load) -> Gate:
    gate.begin(load)
    return gate


class TestThePrice:
    """For steps of known cost."""

    def test_a_lone_plain_request_pays_the_marginal_time(self) -> None:
        assert asked(gate(), Load(1)).floor == pytest.approx(0.05)

    def test_it_rises_with_the_rows(self) -> None:
        prices = [asked(gate(), Load(rows)).floor for rows in (1, 2, 8, 32)]

        assert prices == sorted(prices)
        assert prices[-1] == pytest.approx(32 / (1 + 31 * 0.05) * 0.05)

    def test_it_follows_the_acceptance_length(self) -> None:
        lucky, unlucky = gate(), gate()
        for _ in range(1000):
            lucky.learn(1, 8, 9)
            unlucky.learn(1, 8, 1)

        assert asked(lucky, Load(1)).goodput == pytest.approx(9 / 1.4, rel=0.03)
        assert asked(unlucky, Load(1)).goodput == pytest.approx(1 / 1.4, rel=0.03)
        assert lucky.floor > unlucky.floor

    def test_a_step_without_rows_teaches_nothing_and_buys_nothing(self) -> None:
        idle = gate()
        idle.learn(0, 0, 0)

        assert asked(idle, Load(0)).floor == 1.0
        assert idle.settle([[1.0]]) > 1.0
        assert asked(idle, Load(1)).floor == asked(gate(), Load(1)).floor

    def test_free_tokens_still_have_a_least_price(self) -> None:
        assert asked(gate(FREE), Load(64)).floor == 0.01

    def test_free_tokens_are_all_bought(self) -> None:
        survival = [1.0 - 0.0049 * step for step in range(200)]

        assert asked(gate(FREE), Load(64)).settle([survival]) <= 0.02

    def test_dear_tokens_are_not_bought_at_all(self) -> None:
        assert asked(gate([(1, 1.0), (2, 2.0)]), Load(1)).settle([[0.9] * 5]) > 0.9

    def test_without_candidates_it_is_the_floor(self) -> None:
        found = asked(gate(), Load(3))

        assert found.settle([]) == found.floor == found.price

    def test_prompts_that_are_read_in_the_step_make_tokens_dearer(self) -> None:
        """They use up free capacity. Their own time is not saved by any draft."""
        curve = [(1, 1.0), (32, 1.0), (64, 4.0)]

        alone, beside = (asked(gate(curve), Load(8, prefill_tokens=n)) for n in (0, 40))

        assert alone.floor == 0.01
        assert beside.floor == pytest.approx(8 * 3 / 32)
        assert alone.goodput == beside.goodput

    def test_requests_that_wait_make_the_time_of_a_step_worth_more(self) -> None:
        alone, beside = (asked(gate(), Load(4, waiting=n)) for n in (0, 2))

        assert beside.floor == pytest.approx(1.5 * alone.floor)

    def test_a_long_context_makes_tokens_cheaper(self) -> None:
        """The step takes longer anyway; the time that a token adds is the same."""
        short, long = (asked(gate(), Load(4, context_tokens=n)) for n in (0, 200_000))

        assert long.floor < 0.5 * short.floor

    def test_no_more_is_drafted_than_the_cache_has_room_for(self) -> None:
        tight = asked(gate(FREE), Load(4, room_tokens=3))

        price = tight.settle([SURVIVAL])

        assert sum(chance >= price for chance in SURVIVAL) == 3

    def test_an_array_is_as_good_as_lists(self) -> None:
        found = asked(gate(BUMPY), Load(2))

        assert found.settle(np.array(SURVIVAL)) == found.settle([SURVIVAL[:3], SURVIVAL[3:]])

    @pytest.mark.parametrize("wrong", [None, [None], ["1"]], ids=str)
    def test_what_is_no_survival_is_an_error(self, wrong: list[float]) -> None:
        with pytest.raises(TypeError):
            asked(gate(), Load(1)).settle([wrong])

    def test_nan_is_not_bought(self) -> None:
        price = asked(gate(), Load(1)).settle([[0.9, np.nan], [np.nan] * 20])

        assert price == pytest.approx(0.05)


class TestTheChoice:
    """The tokens that the price lets through gain more than any other number of them."""

    @given(
        points=st.sampled_from([LINEAR, KNEE, BUMPY, CONCAVE, STAIRS]),
        drafts=st.lists(st.lists(st.floats(0.0, 1.0), max_size=12), max_size=8),
        load=st.builds(
            Load,
            st.integers(1, 12),
            waiting=st.integers(0, 30),
            room_tokens=st.integers(0, 20) | st.none(),
        ),
    )
    @example(points=STAIRS, drafts=[[0.3] * 7], load=Load(8))
    @example(points=CONCAVE, drafts=[[0.3] * 20], load=Load(1))
    def test_no_other_number_of_tokens_gains_more(
        self, points: Profile, drafts: list[list[float]], load: Load
    ) -> None:
        found = asked(gate(points), load)
        tokens = load.sequences
        worth = found.goodput * (tokens + load.waiting) / tokens
        able = sorted(each for draft in drafts for each in draft if each >= found.floor)[::-1]
        most = len(able) if load.room_tokens is None else load.room_tokens

        def gain(count: int) -> float:
            longer = found.predict_step(tokens + count) - found.predict_step(tokens)
            return sum(able[:count]) - worth * longer

        price = found.settle(drafts)

        bought = sum(each >= price for each in able)
        assert bought <= most
        for count in range(min(len(able), most) + 1):
            if 0 < count < len(able) and able[count - 1] == able[count]:
                continue  # tokens of equal survival stay together
            assert gain(bought) >= gain(count) - 1e-9

    def test_a_single_token_may_not_pay_where_many_do(self) -> None:
        found = asked(gate(CONCAVE), Load(1))

        assert found.settle([[0.18]]) > 0.18
        assert found.settle([[0.18] * 20]) <= 0.18


class TestTrust:
    """Survivals that the index states are corrected by how its tokens fared."""

    @pytest.mark.parametrize(
        ("stated", "accepted", "trust"),
        [(3.0, 3, 1.0), (4.0, 3, 0.75), (2.0, 3, 1.25), (60.0, 3, 0.5), (0.0, 0, 1.0)],
    )
    def test_it_is_the_ratio_of_accepted_to_stated_tokens(
        self, stated: float, accepted: int, trust: float
    ) -> None:
        found = gate()
        for _ in range(2000):
            found.learn_trust(stated, accepted)

        assert found.trust == pytest.approx(trust, abs=0.03)

    def test_a_few_outcomes_move_it_little(self) -> None:
        found = gate()
        found.learn_trust(8.0, 0)

        assert found.trust > 0.9

    def test_it_yields_to_new_outcomes(self) -> None:
        found = gate()
        for _ in range(100_000):
            found.learn_trust(4.0, 4)
        for _ in range(400):
            found.learn_trust(4.0, 2)

        assert found.trust < 0.7


class TestMeasuredSteps:
    """What they change about the price."""

    def test_a_profiles_unit_does_not_matter(self) -> None:
        prices = []
        for unit in (1.0, 1000.0):
            found = Gate([(1, unit), (101, 6 * unit)])
            found.observe_step(1, 0, 0.02)
            prices.append(asked(found, Load(4)).floor)

        assert prices[0] == pytest.approx(prices[1])

    def test_tokens_that_turn_out_dear_are_not_bought(self) -> None:
        found = gate(FREE)
        for step in range(40):
            found.observe_step(2 + 8 * (step % 3), 0, 0.02 * (1 + 0.5 * (step % 3)))

        assert asked(found, Load(2)).settle([[0.05, 0.01]]) > 0.05

    def test_a_pass_of_the_head_is_paid_with_what_the_time_brings(self) -> None:
        found = asked(gate(), Load(1))

        assert found.cost_of_pass(1) == pytest.approx(0.5)
        assert found.cost_of_pass(0) == found.cost_of_pass(1)
        assert found.cost_of_pass(5) == pytest.approx(0.7)
        assert asked(found, Load(0)).cost_of_pass(1) == 0.0

    def test_what_passes_cost_is_learnt_once_the_unit_is_known(self) -> None:
        found = gate()
        found.observe_head(1, 123.0)
        found.observe_step(1, 0, 0.02)
        first = asked(found, Load(1)).cost_of_pass(1)
        for _ in range(50):
            found.observe_head(1, 0.002)

        assert first == pytest.approx(0.5, rel=0.05)
        assert asked(found, Load(1)).cost_of_pass(1) == pytest.approx(0.1, rel=0.1)
        assert found.pass_curve()[0][1] == pytest.approx(0.002, rel=0.1)

    def test_it_says_what_it_expects(self) -> None:
        found = gate()
        assert not found.is_measured
        found.observe_step(1, 0, 0.02)

        assert found.is_measured
        assert found.observe_step(21, 0, 0.05) == pytest.approx(0.04, rel=0.02)
        assert dict(found.step_curve())[1.0] == found.predict_step(1)


class TestAMeasuredProfile:
    """Times that were measured before the first request replace those that were assumed."""

    def test_its_times_are_expected(self) -> None:
        measured = gate()
        measured.believe([(1, 0.02), (8, 0.03), (9, 0.05)])

        assert [measured.predict_step(size, 0) for size in (1, 8, 9)] == pytest.approx(
            [0.02, 0.03, 0.05]
        )

    def test_a_pass_of_the_head_is_assumed_as_a_share_of_its_shortest_step(self) -> None:
        measured = gate()
        measured.believe([(1, 0.02), (8, 0.03)])

        assert measured.pass_curve()[0] == pytest.approx((1, 0.5 * 0.02))

    def test_steps_behind_the_last_edge_keep_their_jump(self) -> None:
        stairs = Gate(LINEAR, edges=[4, 8])
        stairs.believe([(1, 0.02), (4, 0.02), (8, 0.02), (9, 0.04), (16, 0.05)])

        for _ in range(200):
            stairs.observe_step(7, 0, 0.02)
            stairs.observe_step(14, 0, 0.0475)

        assert stairs.predict_step(8, 0) == pytest.approx(0.02, rel=0.05)
        assert stairs.predict_step(9, 0) == pytest.approx(0.04, rel=0.05)


class TestVerification:
    """All drafts of a step have to pay for verification together."""

    def taught(self, adds: float, *, steps: int = 160) -> Gate:
        """Steps of four requests in which further tokens take no time."""
        found = gate([(1, 1.0), (400, 1.01)])
        for step in range(steps):
            drafted = (0, 1, 4, 12)[step % 4]
            seconds = 0.02 + adds * (drafted > 0)
            found.observe_step(4 + drafted, 0, seconds, 4 if drafted else 0)
            found.learn(4, drafted, 4)
            asked(found, Load(4)).settle([])
        return found

    def test_a_few_sure_tokens_are_refused_and_many_bought(self) -> None:
        found = asked(self.taught(0.01), Load(4))  # 1.45 tokens of four requests

        found.settle([[0.9]])
        few = found.buys
        found.settle([[0.9, 0.8], [0.9]])

        assert found.predict_verification(4) == pytest.approx(0.01, rel=0.1)
        assert not few
        assert found.buys

    def test_a_pass_of_the_head_has_to_bring_what_is_missing(self) -> None:
        found = asked(self.taught(0.01), Load(4))
        found.settle([[0.95, 0.9]])
        paid = found.cost_of_pass(4)
        found.settle([[0.5]])
        part = found.cost_of_pass(4)
        found.settle([])
        alone = found.cost_of_pass(4)

        assert paid < part < alone
        assert alone - part == pytest.approx(0.5, abs=0.05)
        assert alone - paid == pytest.approx(0.01 * found.goodput, rel=0.1)

    def test_a_cost_that_is_no_longer_measured_fades(self) -> None:
        found = asked(self.taught(0.01), Load(4))
        draft = [[0.9]]
        found.settle(draft)
        shut = not found.buys
        for _ in range(400):
            found.observe_step(4, 0, 0.02)
            found.learn(4, 0, 4)
        asked(found, Load(4)).settle(draft)

        assert shut
        assert found.buys

    def test_what_pays_beyond_doubt_is_not_held_back_to_look(self) -> None:
        found = self.taught(0.001)
        bought = []
        for _ in range(30):
            asked(found, Load(4)).settle([[0.99] * 8] * 4)
            bought.append(found.buys)
            found.observe_step(36, 0, 0.021, 4)
            found.learn(4, 32, 36)

        assert all(bought)


class TestUnforeseenPrompts:
    """Prompts that start without notice; their recent sizes are known."""

    def price(self, read: int, *, foreseen: int = 0) -> float:
        found = gate(KNEE)
        for _ in range(40):
            found.begin(Load(8, prefill_tokens=foreseen, read_tokens=read))
        return asked(found, Load(8)).floor

    def test_they_use_up_free_capacity(self) -> None:
        assert self.price(0) == 0.01
        assert self.price(60) > 0.1

    def test_announced_prompts_are_counted_once(self) -> None:
        assert self.price(60, foreseen=60) == 0.01

    def test_one_burst_is_one_of_many_steps(self) -> None:
        found = gate(KNEE)
        for step in range(40):
            found.begin(Load(8, read_tokens=60 if step % 16 == 0 else 0))

        assert asked(found, Load(8)).floor < 0.5 * self.price(60)


class TestLimits:
    """Limits of the operator, whatever pays."""

    def test_more_sequences_than_allowed_draft_nothing(self) -> None:
        found = gate(FREE, max_batch_size=4)

        assert asked(found, Load(4)).settle([[0.5]]) < 0.5
        assert not found.is_limited
        assert asked(found, Load(5)).settle([[1.0]]) > 1.0
        assert found.is_limited
        assert found.floor == 1.0


class TestEdges:
    """Steps are padded to sizes that the gate is told."""

    STAIRS: Profile = ((1, 1.0), (8, 1.0), (16, 2.0), (32, 3.0))

    def test_tokens_up_to_the_next_edge_are_free_and_one_more_is_not(self) -> None:
        found = Gate(self.STAIRS, edges=(8, 16, 32))

        times = [found.predict_step(tokens) for tokens in (1, 5, 8, 9, 16, 17, 32)]

        assert times == [1.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        assert found.predict_step(33) > 3.0

    def test_a_step_is_filled_up_to_the_next_edge(self) -> None:
        found = Gate(self.STAIRS, edges=(8, 16, 32))
        price = asked(found, Load(5)).settle([[0.4] * 1, [0.3] * 2, [0.2] * 20])

        assert price == pytest.approx(0.3, abs=0.01)

    def test_what_is_measured_at_any_size_is_learnt_of_the_whole_stair(self) -> None:
        found = Gate(self.STAIRS, edges=(8, 16, 32))
        found.observe_step(1, 0, 0.010)
        for step in range(300):
            tokens = (3, 7, 9, 12)[step % 4]
            found.observe_step(tokens, 0, 0.010 if tokens <= 8 else 0.012)

        assert found.predict_step(2) == pytest.approx(found.predict_step(8))
        assert found.predict_step(16) == pytest.approx(0.012, rel=0.05)


def test_same_calls_give_same_prices() -> None:
    said: list[list[float]] = []
    for found in (gate(), gate()):
        prices = []
        for step in range(300):
            found.observe_step(4 + step % 7, 100 * step, 0.01 + 0.001 * (step % 5), 4 * (step % 2))
            found.observe_head(1 + step % 3, 0.002)
            found.learn(4, step % 7, 4 + step % 3)
            found.learn_trust(step % 7, step % 3)
            found.begin(Load(4, step % 2, 100 * step, step % 3, read_tokens=step % 5))
            prices.append(found.settle([SURVIVAL, SURVIVAL[: step % 4]]))
        said.append(prices)

    assert said[0] == said[1]
