"""The JSON line: the worst of all runs flat, then every run by curve, traffic and load."""

from collections.abc import Iterable, Mapping

import numpy as np

from bench.gate_sim.arrays import Floats
from bench.gate_sim.bench import Findings
from bench.gate_sim.contest import Contest, figure
from bench.gate_sim.curve import MOST_SEQUENCES
from bench.gate_sim.plan import BEYOND
from bench.rounds import Json, put_summary, summary_of

DEFINITIONS = {
    "speed": "tokens per second of a request in the system, waiting ones included: goodput over "
    "clients in a closed loop, the inverse of the time that clients wait in an open one. Tokens "
    "are expected values, and times are without the noise that rules measure. The first fifth of "
    "a run is left out, or 80 tokens of a request if that is more. The policy's own time is left "
    "out",
    "worst_*": "the worst of all runs, open loops and shifts included. A run's figure is its "
    f"median over seeds; the spread is that run's. Left out: {', '.join(sorted(BEYOND))}, whose "
    "step time grows in stairs, harder than what is required; `worst_by_curve` has every curve",
    "worst_stage_*": "the same of the stages between shifts, with the oracle's own ratio in that "
    "stage. Rules enter a stage with requests at different points of their answers, so a few "
    "hundred steps are not exactly the same work for each",
    "best fixed": "the fastest of no drafts and every fixed number of tokens from every source, "
    "chosen for each run in hindsight",
    "oracle": "knows the true survival of every token (of the head's before its pass only samples, "
    "by request and stretch of text), the true time of this step for every number of tokens, and "
    "its own past speed under the present conditions, without prompts. A token counts less in a "
    "request that is fast anyway. It knows neither which tokens will be accepted nor anything "
    "after this step. In closed loops only. Its choice is not always the best set, so a rule may "
    "be slightly faster",
    "reconverge_steps": "steps after a shift until speed over the oracle's, in windows of ten "
    "steps over all seeds, is within 2 % (or its noise) of its value in the second half of the "
    "stage, or in an earlier stage with the same conditions if that was higher",
    "policy_us_per_step_256": "median over steps with 256 sequences of the policy's own time, "
    "with the Python around it that engine/drafting has too; without sources, head and simulator",
    "not_simulated": "suffix tokens appended to a head draft, predictions, vLLM's own drafters",
}


def report(findings: Findings) -> Json:
    """Put all findings into one object."""
    contests = findings.contests()
    recoveries = [steps for run in findings.shifted.values() for steps in run.recovery or ()]
    return {
        "bench": "gate-sim",
        **_worsts(held := findings.of([name for name in findings.curves if name not in BEYOND])),
        **_worst_stage(held),
        "reconverge_steps_max": max(recoveries, default=None),
        "policy_us_per_step_256": _policy_us(contests, MOST_SEQUENCES),
        "policy_us_per_step": {
            str(sequences): _policy_us(contests, sequences)
            for sequences in (1, 16, 64, MOST_SEQUENCES)
        },
        "worst_by_curve": {curve: _worsts(findings.of([curve])) for curve in findings.curves},
        "by_concurrency": _nested(findings.closed),
        "open_loop": _nested(findings.opened),
        "shifts": {
            curve: {
                shift: run.contest.as_json()
                | {
                    "reconverge_steps": run.recovery,
                    "ratio_to_none_by_stage": [figure(ratio) for ratio in run.to_none],
                    "oracle_to_none_by_stage": [figure(ratio) for ratio in run.oracle_to_none],
                    "regret_to_oracle_by_stage": [figure(regret) for regret in run.regret],
                }
                for (of, shift), run in findings.shifted.items()
                if of == curve
            }
            for curve in dict.fromkeys(curve for curve, _ in findings.shifted)
        },
        "definitions": DEFINITIONS,
    }


def _worsts(findings: Findings) -> Json:
    contests = findings.contests()
    return {
        **_worst("worst_ratio_to_none", map(_to_none, contests), high=False),
        **_worst("worst_ratio_to_best_fixed", [_to_best(one) for one in contests], high=False),
        **_worst("worst_regret_to_oracle", _regrets(contests), high=True),
    }


def _worst(name: str, runs: Iterable[Floats], *, high: bool) -> Json:
    """The run with the lowest median, or the highest, and its spread; None where there is none."""
    ranked = sorted(runs, key=lambda values: float(np.median(values)), reverse=high)
    found: Json = {}
    put_summary(found, name, summary_of(ranked[0].tolist()) if ranked else None)
    return found


def _worst_stage(findings: Findings) -> Json:
    """The stage with the lowest ratio to none, and what the oracle had in the same."""
    stages = [
        pair
        for run in findings.shifted.values()
        for pair in zip(run.to_none, run.oracle_to_none, strict=True)
    ]
    ours, oracle = min(stages, key=lambda pair: float(np.median(pair[0])), default=(None, None))
    return {
        **_worst("worst_stage_ratio_to_none", _given(ours), high=False),
        **_worst("worst_stage_oracle_to_none", _given(oracle), high=False),
    }


def _given(values: Floats | None) -> list[Floats]:
    return [] if values is None else [values]


def _to_none(contest: Contest) -> Floats:
    return contest.ratio("specgate", "none")


def _to_best(contest: Contest) -> Floats:
    return contest.ratio("specgate", contest.best_fixed())


def _regrets(contests: Iterable[Contest]) -> list[Floats]:
    return [regret for one in contests if (regret := one.regret()) is not None]


def _nested(
    contests: Mapping[tuple[str, str, float], Contest],
) -> dict[str, dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    for (curve, traffic, load), contest in contests.items():
        found.setdefault(curve, {}).setdefault(traffic, {})[str(load)] = contest.as_json()
    return found


def _policy_us(contests: Iterable[Contest], sequences: int) -> float | None:
    spent = np.concatenate([one.policy_ns[one.policy_ns[:, 0] == sequences, 1] for one in contests])
    return float(np.median(spent)) / 1e3 if len(spent) else None
