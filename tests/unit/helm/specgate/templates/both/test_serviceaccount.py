from typing import Any

import pytest

from tests.unit.helm.chart import Rendered, needs_helm, render

pytestmark = [needs_helm, pytest.mark.parametrize("component", ["gateway", "engine"])]


def with_account(component: str, **account: Any) -> Rendered:
    values: dict[str, Any] = {component: {"serviceAccount": account}}
    return render(**values)


def test_pods_have_an_account_of_their_own_without_a_token(component: str) -> None:
    rendered = with_account(component, annotations={"role": "r"})

    account = rendered.one("ServiceAccount", f"sg-specgate-{component}")
    assert account["automountServiceAccountToken"] is False
    assert account["metadata"]["annotations"] == {"role": "r"}
    assert rendered.pod(component)["serviceAccountName"] == account["metadata"]["name"]


def test_an_account_that_exists_can_be_named(component: str) -> None:
    rendered = with_account(component, create=False, name="mine")

    assert len(rendered.of("ServiceAccount")) == 1
    assert rendered.pod(component)["serviceAccountName"] == "mine"


def test_without_either_it_is_the_default_one(component: str) -> None:
    pod = with_account(component, create=False).pod(component)

    assert pod["serviceAccountName"] == "default"
