"""One run against the fake worker, for what is made of runs."""

import pytest

from loadtest.load.client import Client
from loadtest.load.made_up import MadeUpPrompts
from loadtest.load.plan import make_plan
from loadtest.load.report import Run
from loadtest.load.run import find_server, play
from loadtest.load.scenario import load_scenario
from tests.fakes.worker import FakeWorker


@pytest.fixture
async def played() -> Run:
    """Two stages of the mixed scenario."""
    mixed = load_scenario("mixed")
    stage = mixed.arrivals.stages[0].model_copy(update={"seconds": 0.2, "requests_per_second": 60})
    arrivals = mixed.arrivals.model_copy(update={"stages": (stage, stage)})
    scenario = mixed.model_copy(update={"arrivals": arrivals})
    # No thinking and no slow reading here: the runs' own time is what a test waits for.
    mix = [
        traffic.model_copy(update={"turns": 1, "read_bytes_per_second": None})
        for traffic in mixed.mix
    ]
    scenario = scenario.model_copy(update={"mix": tuple(mix)})
    plan = make_plan(scenario, MadeUpPrompts(), seed=1)
    async with FakeWorker() as worker, Client(worker.url, limit_seconds=5.0) as client:
        server = await find_server(client, model=None)
        outcomes = await play(plan, client, server)
        return Run("mixed", scenario, worker.url, server, 1, None, plan, outcomes)
