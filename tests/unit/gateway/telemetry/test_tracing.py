import subprocess
import sys

import pytest

from gateway.errors import ConfigError
from gateway.telemetry import open_tracing

ENDPOINT = "http://127.0.0.1:1/v1/traces"


def test_without_opentelemetry_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gateway.telemetry.spans", None)

    with pytest.raises(ConfigError, match=r"install specgate\[tracing\]"):
        open_tracing(ENDPOINT, sample_ratio=1.0)


def test_without_tracing_opentelemetry_is_not_imported() -> None:
    code = (
        "import sys; from prometheus_client import CollectorRegistry\n"
        "from gateway.app import create_app; from gateway.settings import GatewaySettings\n"
        "create_app(GatewaySettings(), registry=CollectorRegistry())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )

    assert done.stdout == "[]\n"


def test_it_closes_without_a_collector() -> None:
    tracing = open_tracing(ENDPOINT, sample_ratio=0.0)
    trace = tracing.begin("POST", "/v1/chat/completions", [])

    tracing.close()

    assert trace.trace_id is not None
