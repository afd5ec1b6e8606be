"""The tree of values."""

from typing import Annotated, Any

from pydantic import BaseModel, Field

from engine.config import EngineSettings
from gateway.settings import RESPONSE_STORE, GatewaySettings
from helm.values.engine import EngineValues
from helm.values.gateway import GatewayValues
from helm.values.kubernetes import Labels, Name, NamedSecret, SecretKey, Values
from helm.values.monitoring import Monitoring, NetworkPolicy, Tracing
from helm.values.pool import InferencePool


class Settings(Values):
    """The settings of both programs (docs/settings.md); the schema contains each of them."""

    gateway: dict[str, Any] = Field(
        {},
        description="Section `gateway:`. The chart sets addresses, key files and worker discovery.",
    )
    engine: dict[str, Any] = Field(
        {}, description="Section `engine:`. The chart sets addresses and the cache folder."
    )


class Security(Values):
    """The user of the pods. Fixed are: not root, no capabilities, read-only root, seccomp."""

    user: Annotated[int, Field(ge=1)] | None = Field(
        10001, description="User and group ID; null: the platform chooses (OpenShift)."
    )


class ChartValues(Values):
    """All values of the chart."""

    nameOverride: Name = Field("", description="Replaces the chart's name in object names.")
    fullnameOverride: Name = Field(
        "", description="Replaces the release's and the chart's name in object names."
    )
    commonLabels: Labels = Field({}, description="Additional labels of every object.")
    imagePullSecrets: list[NamedSecret] = Field(
        [], description="Secrets for pulling images, each as `- name: ...`."
    )
    settings: Settings = Field(
        Settings(), description="Settings of the gateway and the engine, rendered into one file."
    )
    keys: SecretKey = Field(
        SecretKey(existingSecret="specgate-keys", secretKey="keys.jsonl"),
        description="API keys: the file that `specgate keys create` writes. May be empty only with "
        "`settings.gateway.allow_without_keys`.",
    )
    workerKey: SecretKey = Field(
        SecretKey(),
        description="A key that workers require from the gateway, in addition to the network "
        "policy.",
    )
    tenantSecret: SecretKey = Field(
        SecretKey(),
        description="What tenants' names for the workers are made with. Without it each gateway "
        "pod names them differently, so they share no prefix cache and no learnt text.",
    )
    limitsPassword: SecretKey = Field(
        SecretKey(),
        description="The password of `settings.gateway.limits.store`.",
    )
    responsesPassword: SecretKey = Field(
        SecretKey(),
        description="The password of `settings.gateway.responses.store`.",
    )
    security: Security = Field(Security(), description="The user that pods run as.")
    gateway: GatewayValues = Field(GatewayValues(), description="The gateway.")
    engine: EngineValues = Field(EngineValues(), description="The workers.")
    inferencePool: InferencePool = Field(
        InferencePool(), description="For the Gateway API Inference Extension."
    )
    networkPolicy: NetworkPolicy = Field(
        NetworkPolicy(), description="Which connections are allowed."
    )
    monitoring: Monitoring = Field(Monitoring(), description="Metrics, alerts and dashboards.")
    tracing: Tracing = Field(Tracing(), description="Traces.")
    global_: dict[str, Any] = Field(
        {}, alias="global", description="Helm's global values, for charts that contain this one."
    )


SETTINGS: dict[str, type[BaseModel]] = {"gateway": GatewaySettings, "engine": EngineSettings}
"""The models whose schemas replace those of `settings.gateway` and `settings.engine`."""
SET_BY_THE_CHART = {
    "GatewaySettings": {"host", "port", "supervisor", "tracing"},
    "KeySettings": {"file"},
    "UpstreamSettings": {"api_key_file"},
    "EngineSettings": {"host", "port", "uds", "cache_dir"},
}
"""Settings that `settings` must not contain, by the class that defines them."""
LOOSER: dict[str, dict[str, Any]] = {
    "EngineSettings": {
        "environment": {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
    },
    "ResponsesSettings": {
        # YAML reads a bare `off` as false
        "store": {"anyOf": [{"type": "string", "pattern": RESPONSE_STORE}, {"enum": [False]}]}
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
"""Schemas of fields whose validator converts more than the field's type allows."""
