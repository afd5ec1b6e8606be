from typing import Any

import pytest

from tests.unit.helm.chart import Rendered, needs_helm, render

pytestmark = [needs_helm, pytest.mark.parametrize("component", ["gateway", "engine"])]


def with_budget(component: str, **budget: Any) -> Rendered:
    values: dict[str, Any] = {component: {"disruptionBudget": budget}}
    return render(**values)


def test_one_pod_at_a_time_may_be_missing(component: str) -> None:
    rendered = render()

    budget = rendered.one("PodDisruptionBudget", f"sg-specgate-{component}")["spec"]
    labels = rendered.template(component)["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert budget["selector"]["matchLabels"].items() <= labels.items()


def test_it_may_be_a_percentage_or_none(component: str) -> None:
    some = with_budget(component, maxUnavailable="25%")
    none = with_budget(component, enabled=False)

    name = f"sg-specgate-{component}"
    assert some.one("PodDisruptionBudget", name)["spec"]["maxUnavailable"] == "25%"
    assert name not in {found["metadata"]["name"] for found in none.of("PodDisruptionBudget")}
