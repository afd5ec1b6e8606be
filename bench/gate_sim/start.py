"""Wrong profiles to start from, and how long a policy takes to recover from one."""

from dataclasses import dataclass, replace

import numpy as np

from bench.gate_sim.contest import Policy, Result, result_of
from engine.simulation.arrays import Floats
from engine.simulation.curve import Curve
from engine.simulation.engine import World, simulate
from engine.simulation.schedules import Scheduled, Source, fixed


@dataclass(frozen=True, slots=True)
class Start:
    """How the profile that a policy begins with differs from the machine.

    Attributes:
        slow: Every time is multiplied by it.
        steep: What further tokens add to the smallest step is multiplied by it.
        head: The time of a head pass is multiplied by it.
    """

    name: str
    slow: float = 1.0
    steep: float = 1.0
    head: float = 1.0

    def mistaken(self, curve: Curve) -> Curve:
        """The curve as the policy believes it to be. Its edges are right."""
        least = curve.step[1, 1]
        return replace(
            curve,
            step=self.slow * (least + self.steep * (curve.step - least)),
            head=self.slow * self.head * curve.head,
            verify=self.slow * curve.verify,
        )


def run_from(start: Start, world: World, source: Source, policy: Policy, *, seeds: int) -> Result:
    """Run a policy from a wrong start, as `specgate`, and from the right one, as `right-start`.

    Every token counts, from the first one on.
    """
    lanes = np.arange(seeds)
    wrong = policy(replace(world, curve=start.mistaken(world.curve)), seeds, source)
    right = policy(world, seeds, source)
    records = {
        "none": simulate(world, Scheduled([fixed(0, source)] * seeds), lanes),
        "right-start": simulate(world, right, lanes),
        "specgate": simulate(world, wrong, lanes),
    }
    return result_of(records, wrong, begin=0, end=world.course.tokens)


def lost_steps(result: Result, tokens: int) -> Floats:
    """Return the time that a wrong start loses, in steps without drafts; (seeds,).

    Args:
        result: Of `run_from`.
        tokens: That each request of the run generates; without drafts that is as many steps.
    """
    ours, right = (result.ratio("none", name) for name in ("specgate", "right-start"))
    return np.asarray(tokens * (ours - right))
