"""A gateway that has never found a worker, which only the gateway's own metrics can show."""

from pathlib import Path

import pytest

from monitoring.rules import ALERTS, with_defaults
from tests.e2e.monitoring.prometheus import NAMESPACE, running_prometheus
from tests.e2e.monitoring.queries import dashboards, filled
from tests.integration.process import gateway_process

pytestmark = pytest.mark.e2e

NOWHERE = "dns+http://workers.invalid:8001"  # Source: RFC 6761, which reserves `.invalid`


async def test_prometheus_sees_that_no_worker_was_ever_found(tmp_path: Path) -> None:
    (alert,) = [alert for alert in ALERTS if alert.name == "SpecgateNoWorkerFound"]
    (panel,) = [p for p in dashboards()["fleet"]["panels"] if p["title"] == "Workers up"]
    async with gateway_process(tmp_path, wait_ready=False, workers=[NOWHERE]) as gateway:
        await gateway.until_live()
        with running_prometheus(tmp_path, gateway.url, ("/metrics",)) as prometheus:
            prometheus.wait_for(f'ALERTS{{alertname="{alert.name}", alertstate="pending"}}')
            (known,) = prometheus.query(with_defaults(alert.expression))
            (shown,) = prometheus.query(filled(panel["targets"][0]["expr"]))
            others = prometheus.query('ALERTS{alertname!="SpecgateNoWorkerFound"}')

    assert known.labels == {"namespace": NAMESPACE}
    assert shown.points[0][1] == 0
    assert others == []
