"""Drafts and other requests in the batch change no token in float32 either."""

from collections.abc import Iterator

import pytest

from tests.e2e.exactness.conftest import DTYPE, profile, speculation
from tests.e2e.exactness.test_batch_invariance import check_batch_invariance
from tests.e2e.exactness.worker import Worker, starting_worker

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(DTYPE == "float32", reason="the other tests here have used float32"),
]


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    settings = profile(vllm={"dtype": "float32"}, speculation=speculation())
    with starting_worker(tmp_path_factory.mktemp("float32"), settings) as started:
        started.wait_ready()
        yield started


def test_drafts_and_neighbours_change_no_token(worker: Worker) -> None:
    check_batch_invariance(worker)
