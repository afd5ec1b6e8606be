from typing import Any

from tests.unit.helm.chart import needs_helm, render

pytestmark = needs_helm


def ingress(**values: Any) -> dict[str, Any]:
    chosen = {"enabled": True, "host": "llm.example.com", **values}
    return render(gateway={"ingress": chosen}).one("Ingress", "sg-specgate-gateway")


def test_there_is_none_unless_it_is_asked_for() -> None:
    assert render().of("Ingress") == []


def test_only_the_api_can_be_reached_from_outside() -> None:
    (rule,) = ingress()["spec"]["rules"]

    (path,) = rule["http"]["paths"]
    assert rule["host"] == "llm.example.com"
    assert (path["path"], path["pathType"]) == ("/v1", "Prefix")
    service = path["backend"]["service"]
    assert service == {"name": "sg-specgate-gateway", "port": {"name": "http"}}


def test_class_certificate_and_annotations() -> None:
    found = ingress(className="nginx", tlsSecret="cert", annotations={"a": "off"})

    assert found["spec"]["ingressClassName"] == "nginx"
    assert found["spec"]["tls"] == [{"hosts": ["llm.example.com"], "secretName": "cert"}]
    assert found["metadata"]["annotations"] == {"a": "off"}
