"""The JSON line has every key of the benchmark's contract, with the figures that belong there."""

import json
from dataclasses import replace

import numpy as np
import pytest

from bench.pacing.bound import least_ratio, least_ratio_unheaped
from bench.pacing.crowd import CrowdFigures
from bench.pacing.dialect import Arrival
from bench.pacing.figures import Played, played
from bench.pacing.patterns import Chunk, Pattern
from bench.pacing.plan import BOUND_MS, MODES, THOUSAND, Mode
from bench.pacing.privacy import Attack
from bench.pacing.report import Measured, is_recorded, report
from bench.pacing.round import Playback

MS = 1_000_000
KEYS = [
    "bench",
    "added_first_token_ms_p99",
    "added_delay_ms_p50",
    "added_delay_ms_p99",
    "end_delay_ms_p99",
    "gap_p99_over_median_worker",
    "gap_p99_over_median_client",
    "gap_ratio_smoothest",
    "gap_ratio_least_possible",
    "gap_ratio_least_possible_unheaped",
    "streams_1000_cpu_cores",
    "streams_1000_late_ms_p99",
    "attacker_accuracy_raw",
    "attacker_accuracy_smooth",
    "attacker_accuracy_private",
    "attacker_chance",
]
WAYS: dict[Mode, float] = {"off": 1.0, "control": 1.5, "smooth": 41.0, "private": 81.0}
EVEN = {"best": [0.2, 0.4], "sizes": [0.1, 0.1]}
ATTACK = Attack({"raw": EVEN, "smooth": EVEN, "private": EVEN}, 50, 1_000, [])
CROWD = CrowdFigures(
    cores=0.8,
    harness_cores=0.4,
    tokens_per_second=50_000.0,
    chunks_per_second=25_000.0,
    cpu_us_per_token=16.0,
    worst_delay_ms=[100.0] * 98 + [125.0, 133.0],
    errors=2,
)


def stream(kind: str, way_ms: float, *, pause_ms: int = 100) -> Played:
    # Every eleventh gap is a pause; the client gets it as it was.
    sent_ns = [0]
    for number in range(99):
        sent_ns.append(sent_ns[-1] + (pause_ms if number % 11 == 10 else 10) * MS)
    pattern = Pattern(f"{kind}-a", kind, [Chunk(at_ns, "x", 1) for at_ns in sent_ns])
    arrivals = [Arrival(int(at_ns + way_ms * MS), "x", None) for at_ns in sent_ns]
    return played(pattern, [*sent_ns, sent_ns[-1]], arrivals, (arrivals[-1].at_ns, 1_000))


def a_round() -> dict[Mode, Playback]:
    return {
        mode: Playback(
            [stream("chat-8", way), stream("code-1", way, pause_ms=30), stream("bursts", way)],
            [],
            [],
            way,
        )
        for mode, way in WAYS.items()
    }


MEASURED = Measured(
    rounds=[a_round(), a_round()],
    crowds={
        "100": [{"off": CROWD}],
        THOUSAND: [{"smooth": CROWD}, {"smooth": replace(CROWD, cores=0.9)}],
    },
    crowd_flaws=["late"],
    tokens_per_chunk=2.0,
    attack=ATTACK,
    attack_failure=None,
)


def test_every_key_of_the_contract_is_there() -> None:
    found = report(MEASURED)

    assert [key for key in KEYS if found.get(key) is None] == []
    assert json.loads(json.dumps(found)) == found


def test_figures_of_smooth_are_flat_and_the_others_nested() -> None:
    found = report(MEASURED)

    assert found["added_delay_ms_p50"] == pytest.approx(40.0)
    assert found["added_delay_ms_p50_spread"] == pytest.approx([40.0, 40.0])
    modes = found["modes"]
    assert isinstance(modes, dict)
    assert set(modes) == set(MODES) - {"off"}
    assert modes["control"]["delay_ms_p99"] == pytest.approx(0.5)
    assert modes["private"]["gateway_metric_ms"] == 81.0


def test_the_headline_of_gaps_is_of_recorded_streams_that_stutter() -> None:
    found = report(MEASURED)

    assert found["gap_p99_over_median_worker"] == pytest.approx(10.0)
    assert found["gap_p99_over_median_client"] == pytest.approx(10.0)
    assert found["gap_streams"] == [2, 4]


def test_streams_are_judged_one_by_one() -> None:
    evened = stream("chat-8", 1.0)
    evened = replace(evened, piece_ns=np.arange(100) * 20 * MS)
    # Nobody can fill a pause of three times the bound.
    stalled = stream("edit-1", 1.0, pause_ms=3 * BOUND_MS)
    playback = Playback([evened, stalled], [], [], None)
    found = report(replace(MEASURED, rounds=[dict.fromkeys(MODES, playback)]))

    assert found["gap_streams_even"] == [1, 2]
    assert found["gap_streams_never_even"] == [1, 1, 2]
    unheaped = found["gap_ratio_least_possible_unheaped"]
    assert unheaped == pytest.approx(
        (least_ratio_unheaped(evened) + least_ratio_unheaped(stalled)) / 2, abs=1e-4
    )
    least = found["gap_ratio_least_possible"]
    assert least == pytest.approx((least_ratio(evened) + least_ratio(stalled)) / 2, abs=1e-4)


def test_a_pattern_is_bounded_once_a_round() -> None:
    one = stream("chat-8", 1.0)
    playback = Playback([one, one, one], [], [], None)
    found = report(replace(MEASURED, rounds=[dict.fromkeys(MODES, playback)] * 2))

    assert found["gap_streams"] == [6, 6]
    assert found["gap_streams_never_even"] == [0, 0, 2]


def test_lateness_is_what_is_beyond_the_bound() -> None:
    found = report(MEASURED)

    assert found["streams_1000_late_ms_p99"] == pytest.approx(5.0)
    assert found["streams_1000_cpu_cores"] == pytest.approx(0.85)
    assert found["errors"] == 1


def test_the_attackers_accuracy_has_the_spread_of_its_folds() -> None:
    found = report(MEASURED)

    assert found["attacker_accuracy_smooth"] == pytest.approx(0.3)
    assert found["attacker_accuracy_smooth_spread"] == [0.2, 0.4]
    assert found["attacker_chance"] == 0.02


def test_without_an_attack_the_reason_is_reported() -> None:
    found = report(replace(MEASURED, attack=None, attack_failure="no network"))

    assert found["attacker_failure"] == "no network"
    assert "attacker_accuracy_raw" not in found


def test_a_run_in_which_all_failed_has_no_figures() -> None:
    lost: dict[Mode, Playback] = {mode: Playback([None], [], ["lost"], None) for mode in MODES}
    found = report(replace(MEASURED, rounds=[lost], crowds={THOUSAND: [{"smooth": None}]}))

    assert found["added_delay_ms_p99"] is None
    assert found["streams_1000_cpu_cores"] is None
    assert found["errors"] == 5


@pytest.mark.parametrize(("kind", "expected"), [("chat-1", True), ("bursts", False)])
def test_recorded_kinds_name_their_clients(kind: str, expected: bool) -> None:
    assert is_recorded(kind) is expected
