"""One real service, gateway and worker, shared by all tests of this folder."""

from collections.abc import Iterator

import pytest

from tests.e2e.service import Service, running_service
from tests.fakes.collector import Collector, running_collector


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """Receives the traces of `service`."""
    with running_collector() as running:
        yield running


@pytest.fixture(scope="session")
def service(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The default profile, with traces. A test that kills its worker waits for the next one."""
    engine = {"vllm__otlp_traces_endpoint": collector.endpoint}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")
        with running_service(
            tmp_path_factory.mktemp("service"),
            engine=engine,
            tracing__endpoint=collector.endpoint,
        ) as running:
            yield running
