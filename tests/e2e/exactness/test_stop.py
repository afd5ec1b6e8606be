"""A worker that is stopped and started again goes on with what its index had learnt.

That both kinds of stop save it is asserted by the fixture `restarted` itself, at its end.
"""

import pytest

from tests.e2e.exactness.conftest import Restarted

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_stopped_worker_starts_with_what_it_had_learnt(restarted: Restarted) -> None:
    again = restarted.worker.ask(restarted.body)

    assert again == restarted.answer
    assert again.drafts.accepted > max(15, restarted.answer.drafts.accepted)
