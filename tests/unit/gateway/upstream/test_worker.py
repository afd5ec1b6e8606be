import pytest

from gateway.upstream import Worker
from tests.unit.gateway.upstream.workers import make_worker, pool_of
from tests.unit.gateway.virtual_time import in_virtual_time


@pytest.mark.parametrize(
    ("up", "model", "failures", "can"),
    [
        (True, None, 0, True),
        (True, "m", 0, True),
        (True, "other", 0, False),
        (False, None, 0, False),
        (True, "m", 2, False),
    ],
    ids=["any-model", "its-model", "other-model", "down", "ejected"],
)
@in_virtual_time
async def test_a_worker_takes_requests_it_can_serve(
    up: bool, model: str | None, failures: int, can: bool
) -> None:
    worker = make_worker("w")
    async with pool_of([worker]):
        worker.up, worker.models = up, {"m": {}}
        for _ in range(failures):
            worker.outlier.fail(None, 0, may_eject=True)

        assert worker.can_take(model, 0) == can


@pytest.mark.parametrize(
    ("ever_up", "seconds", "weight"),
    [(False, 0, 1.0), (True, 0, 0.1), (True, 5, 0.5), (True, 10, 1.0)],
    ids=["first-time", "just-back", "half-way", "recovered"],
)
@in_virtual_time
async def test_a_recovered_worker_is_spared(ever_up: bool, seconds: float, weight: float) -> None:
    worker: Worker = make_worker("w")
    async with pool_of([worker]):
        worker.ever_up, worker.up_since = ever_up, 100

        assert worker.weight(100 + seconds, ramp_seconds=10) == weight
