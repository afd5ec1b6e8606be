from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert render().of("HorizontalPodAutoscaler") == []


def test_it_scales_the_deployment_by_cpu_and_takes_pods_away_slowly() -> None:
    rendered = render(gateway={"autoscaling": {"enabled": True, "cpuUtilization": 50}})

    spec = rendered.one("HorizontalPodAutoscaler", "sg-specgate-gateway")["spec"]
    target = spec["scaleTargetRef"]
    assert rendered.one(target["kind"], target["name"])["apiVersion"] == target["apiVersion"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (2, 10)
    (metric,) = spec["metrics"]
    assert metric["resource"] == {
        "name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50},
    }
    # Without a request for CPU there would be nothing to take a percentage of.
    assert rendered.container("gateway")["resources"]["requests"]["cpu"] == "1"
    down = spec["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] == 300
    assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 60}]
