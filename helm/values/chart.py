"""The tree of values."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from engine.config import EngineSettings
from gateway.settings import GatewaySettings
from helm.values.engine import EngineValues
from helm.values.gateway import GatewayValues
from helm.values.kubernetes import Labels, Name, NamedSecret, SecretKey, Values
from helm.values.monitoring import Monitoring, NetworkPolicy, Tracing


class Settings(Values):
    """The settings of both programs (docs/settings.md); the schema knows each of them."""

    gateway: dict[str, Any] = Field(
        {},
        description="Section `gateway:`. Addresses, keys and discovery are set by the chart.",
    )
    engine: dict[str, Any] = Field(
        {}, description="Section `engine:`. Addresses and the cache's folder are set by the chart."
    )


class Security(Values):
    """Whom pods run as; all else is fixed: not root, no capabilities, read-only root, seccomp."""

    user: Annotated[int, Field(ge=1)] | None = Field(
        10001, description="User and group of the images; null: the platform chooses (OpenShift)."
    )


class ChartValues(Values):
    """Everything that can be set."""

    nameOverride: Name = Field("", description="Instead of the chart's name in names.")
    fullnameOverride: Name = Field("", description="Instead of release and chart in names.")
    commonLabels: Labels = Field({}, description="More labels of every object.")
    imagePullSecrets: list[NamedSecret] = Field(
        [], description="Secrets for pulling images, as `- name: ...`."
    )
    settings: Settings = Field(
        Settings(), description="What runs; rendered into one file that both programs read."
    )
    keys: SecretKey = Field(
        SecretKey(existingSecret="specgate-keys", secretKey="keys.jsonl"),
        description="API keys: the file that `specgate keys create` writes. Empty only with "
        "`settings.gateway.allow_without_keys`.",
    )
    workerKey: SecretKey = Field(
        SecretKey(), description="A key that workers ask the gateway for, besides the policy."
    )
    security: Security = Field(Security(), description="Whom pods run as.")
    gateway: GatewayValues = Field(GatewayValues(), description="The gateway.")
    engine: EngineValues = Field(EngineValues(), description="The workers.")
    networkPolicy: NetworkPolicy = Field(NetworkPolicy(), description="Who may reach whom.")
    monitoring: Monitoring = Field(Monitoring(), description="Metrics, alerts, dashboards.")
    tracing: Tracing = Field(Tracing(), description="Traces.")
    global_: dict[str, Any] = Field(
        {}, alias="global", description="Helm's own, for charts that contain this one."
    )


SETTINGS: dict[str, type[BaseModel]] = {"gateway": GatewaySettings, "engine": EngineSettings}
"""The trees whose schemas stand in for `settings.gateway` and `settings.engine`."""
SET_BY_THE_CHART = {
    "GatewaySettings": {"host", "port", "supervisor", "tracing"},
    "KeySettings": {"file"},
    "UpstreamSettings": {"api_key_file"},
    "EngineSettings": {"host", "port", "uds", "cache_dir"},
}
"""Settings that `settings` may not hold, by the class that has them."""
LOOSER: dict[str, dict[str, Any]] = {
    "EngineSettings": {
        "environment": {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    },
    "Speculation": {
        "sources": {
            "anyOf": [
                {"type": "array", "items": {"enum": ["suffix", "head", "native"]}},
                {"enum": ["off", False]},  # YAML reads a bare `off` as false
            ]
        }
    },
}
"""Fields that take more than their types say, because a validator turns it into them."""
