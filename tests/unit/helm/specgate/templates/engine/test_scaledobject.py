"""Source of the fields: KEDA's API, keda.sh/v1alpha1, and its scaler `prometheus`."""

import re
from typing import Any

from tests.unit.helm.chart import CI_FILES, Object, needs_helm, render

pytestmark = needs_helm

NAME = "sg-specgate-engine"


def scaled(**values: Any) -> Object:
    keda = {"enabled": True, "serverAddress": "http://prometheus:9090", **values}
    found: Object = render(engine={"keda": keda}).one("ScaledObject", NAME)["spec"]
    return found


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert render().of("ScaledObject") == []


def test_it_scales_what_there_is() -> None:
    (file,) = [file for file in CI_FILES if file.stem.startswith("multi-node")]
    keda = {"enabled": True, "serverAddress": "http://p"}
    group = render(file, engine={"keda": keda})

    assert scaled()["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": NAME,
    }
    target = group.one("ScaledObject", NAME)["spec"]["scaleTargetRef"]
    assert group.one(target["kind"], target["name"])["apiVersion"] == target["apiVersion"]
    query = group.one("ScaledObject", NAME)["spec"]["triggers"][0]["metadata"]["query"]
    assert 'pod=~"sg-specgate-group-[0-9].*"' in query


def test_it_looks_at_the_queue_and_at_the_kv_cache_of_its_own_pods() -> None:
    waiting, cache = scaled(waitingRequests=2.5, kvCacheUsage=0.7)["triggers"]

    pods = '{namespace="llm",pod=~"sg-specgate-engine-[0-9].*"}'
    assert waiting["metadata"] == {
        "serverAddress": "http://prometheus:9090",
        "query": f"sum(vllm:num_requests_waiting{pods})",
        "threshold": "2.5",
    }
    assert cache["metadata"]["query"] == f"sum(vllm:kv_cache_usage_perc{pods})"
    assert cache["metadata"]["threshold"] == "0.7"
    # Both are sums, which KEDA divides by the pods there are.
    assert {trigger["metricType"] for trigger in (waiting, cache)} == {"AverageValue"}
    assert re.fullmatch("sg-specgate-engine-[0-9].*", "sg-specgate-engine-0")


def test_bounds_and_a_slow_way_down() -> None:
    spec = scaled(minReplicas=2, maxReplicas=8, cooldownSeconds=60)

    behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 8)
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 60
    assert behavior["scaleDown"]["policies"][0]["value"] == 1
