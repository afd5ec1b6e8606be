"""The workloads, and the recorded sessions of each round; no session is used twice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bench.engine.plan import CREATIVE_TEMPERATURE, Plan
from bench.engine.records import Ask, Pools, Session

Slices = Mapping[str, Sequence[Sequence[Session]]]
"""By workload, for each round the sessions that every method gets in it."""
Wants = Mapping[str, Mapping[str, int]]
"""By workload, how many sessions of each kind it wants for a round."""


def wants_of(plan: Plan, batch: int) -> Wants:
    """How many sessions each workload wants with so many clients."""
    prompts, each = plan.prompts_at(batch), plan.of_each_at(batch)
    return {
        "chat": {"chat": prompts},
        "code": {"code": prompts},
        "edit": {"edit": plan.edits_at(batch)},
        "edit_prediction": {"edit": plan.edits_at(batch)},
        "agent": {"agent": plan.sessions_at(batch)},
        "mixed": {"chat": each, "code": each, "edit": each, "agent": each},
        "creative": {"chat": prompts},
    }


def deal(pools: Pools, plan: Plan, batch: int) -> Slices:
    """Deal sessions to workloads and rounds.

    Where a kind has too few, every workload that wants it gets proportionally fewer; a workload
    that gets none is left out.
    """
    wants = wants_of(plan, batch)
    shares = {
        workload: {
            kind: _share(count, len(pools.get(kind, ())) // plan.rounds, _wanted(wants, kind))
            for kind, count in kinds.items()
        }
        for workload, kinds in wants.items()
    }
    slices: dict[str, list[list[Session]]] = {w: [] for w in wants if any(shares[w].values())}
    left = {kind: iter(sessions) for kind, sessions in pools.items()}
    for _ in range(plan.rounds):
        for workload, rounds in slices.items():
            shape = _SHAPES.get(workload, _as_recorded)
            turns = plan.mixed_turns if workload == "mixed" else plan.turns_at(batch)
            rounds.append(
                [
                    [_shortened(shape(ask), plan, batch) for ask in next(left[kind])[:turns]]
                    for kind, count in shares[workload].items()
                    for _ in range(count)
                ]
            )
    return slices


def _wanted(wants: Wants, kind: str) -> int:
    return sum(kinds.get(kind, 0) for kinds in wants.values())


def _share(count: int, available: int, wanted: int) -> int:
    return count if wanted <= available else count * available // wanted


def _shortened(ask: Ask, plan: Plan, batch: int) -> Ask:
    return replace(ask, most_tokens=plan.tokens_at(batch, alone=ask.most_tokens))


def _as_recorded(ask: Ask) -> Ask:
    return replace(ask, prediction=None)


def _with_prediction(ask: Ask) -> Ask:
    return ask


def _creative(ask: Ask) -> Ask:
    # Methods sample different texts (with a seed, ours would not draft), so equal lengths make the
    # work equal.
    return replace(_as_recorded(ask), temperature=CREATIVE_TEMPERATURE, ignore_eos=True)


_SHAPES: Mapping[str, Callable[[Ask], Ask]] = {
    "edit_prediction": _with_prediction,
    "creative": _creative,
}
