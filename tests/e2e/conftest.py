"""The end-to-end tests share one real service; those that break workers start their own."""

from collections.abc import Iterator

import pytest

from tests.e2e.service import Service, running_service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A gateway with the real worker, for all tests that leave it as it was."""
    with running_service(tmp_path_factory.mktemp("service")) as running:
        yield running
