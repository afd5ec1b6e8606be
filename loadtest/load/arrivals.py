"""When requests come: drawn from a seed before the run, so that no answer can delay them. Pure."""

from collections.abc import Iterator
from random import Random

from loadtest.load.scenario import Arrivals, Process, Stage


def arrival_times(arrivals: Arrivals, random: Random) -> list[tuple[float, int]]:
    """Draw every arrival of a run.

    Returns:
        Seconds after the start, and the number of the stage, in order of time.
    """
    times = []
    begin = 0.0
    for number, stage in enumerate(arrivals.stages):
        times += [(begin + offset, number) for offset in _offsets(stage, arrivals.process, random)]
        begin += stage.seconds
    return times


def _offsets(stage: Stage, process: Process, random: Random) -> Iterator[float]:
    gap = 1.0 / stage.requests_per_second
    if process == "constant":
        yield from (gap * index for index in range(round(stage.seconds / gap)))
        return
    offset = random.expovariate(stage.requests_per_second)
    while offset < stage.seconds:
        yield offset
        offset += random.expovariate(stage.requests_per_second)
