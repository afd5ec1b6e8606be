"""The JSON report of a run: figures of all requests, by traffic and by stage."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.load.figures import Figures, figures_of
from loadtest.load.plan import Arrival, fingerprint_of
from loadtest.load.run import Outcome, Server
from loadtest.load.scenario import Scenario

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Run:
    """A complete run.

    Attributes:
        name: Of the scenario.
        url: Of the server, as it was given.
        data: Folder of the prompts; None: generated.
    """

    name: str
    scenario: Scenario
    url: str
    server: Server
    seed: int
    data: str | None
    plan: Sequence[Arrival]
    outcomes: Sequence[Outcome]

    @property
    def seconds(self) -> float:
        """From the first arrival's due time to the end of the last answer; at least one second."""
        first = min((o.answer.recording.due_ns for o in self.outcomes), default=0)
        last = max((o.answer.ended_ns for o in self.outcomes), default=0)
        return max(1.0, (last - first) / 1e9)

    def of_all(self) -> Figures:
        """The figures of every request."""
        return self._figures(self.outcomes, self.seconds)

    def by_traffic(self) -> dict[str, Figures]:
        """The figures of each kind of client."""
        names = [traffic.name for traffic in self.scenario.mix]
        groups = {
            name: [o for o in self.outcomes if o.arrival.traffic.name == name] for name in names
        }
        return {name: self._figures(group, self.seconds) for name, group in groups.items() if group}

    def by_stage(self) -> list[Figures]:
        """The figures of each stage, by arrival; rates are over the stage's own time."""
        return [
            self._figures([o for o in self.outcomes if o.arrival.stage == number], stage.seconds)
            for number, stage in enumerate(self.scenario.arrivals.stages)
        ]

    def _figures(self, outcomes: Sequence[Outcome], seconds: float) -> Figures:
        return figures_of(outcomes, self.scenario.objective, seconds=seconds)


def report_of(run: Run) -> Json:
    """The JSON object of a run; figures are defined in `figures`."""
    arrivals = run.scenario.arrivals
    stages = [
        {"requests_per_second": stage.requests_per_second, "seconds": stage.seconds}
        | figures.as_json()
        for stage, figures in zip(arrivals.stages, run.by_stage(), strict=True)
    ]
    return {
        "bench": "load",
        "scenario": run.name,
        "url": run.url,
        "model": run.server.model,
        "process": arrivals.process,
        "seed": run.seed,
        "plan": fingerprint_of(run.plan),
        "data": run.data,
        "stream_counts_tokens": run.server.counts_tokens,
        "seconds": round(run.seconds, 3),
        "objective": run.scenario.objective.model_dump(),
        **run.of_all().as_json(),
        "by_traffic": {name: figures.as_json() for name, figures in run.by_traffic().items()},
        "by_stage": stages,
    }
