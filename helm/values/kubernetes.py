"""Values that gateway and engine share, and types of Kubernetes' API that are passed through."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)]
"""Name of an object; empty: none."""
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")]
"""Source: Kubernetes, `apimachinery/pkg/api/resource` (without its exponent forms)."""
Seconds = Annotated[int, Field(ge=0, le=86400)]
Labels = dict[str, str]
WhenUnsatisfiable = Literal["", "ScheduleAnyway", "DoNotSchedule"]


class Values(BaseModel):
    """A group of values; unknown names are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Image(Values):
    """A container image."""

    repository: Annotated[str, Field(min_length=1)] = Field(
        "specgate", description="Registry and name."
    )
    tag: str = Field("", description="Tag.")
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = Field(
        "", description="Digest; takes precedence over the tag."
    )
    pullPolicy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="When a node pulls the image."
    )


class SecretKey(Values):
    """A key in an existing Secret; the chart creates none."""

    existingSecret: Name = Field("", description="Name of the Secret; empty: none.")
    secretKey: Annotated[str, Field(min_length=1)] = Field(
        "key", description="The key in the Secret."
    )


class NamedSecret(Values):
    """A reference to a Secret."""

    name: Annotated[str, Field(min_length=1)]


class ServiceAccount(Values):
    """The pods' service account; they get no token, since they never call Kubernetes' API."""

    create: bool = Field(True, description="Create the account.")
    name: Name = Field("", description="Name of the account; empty: the component's name.")
    annotations: Labels = Field({}, description="Annotations, such as a cloud identity.")


class Amounts(Values):
    """Amounts of a container's compute resources."""

    cpu: Quantity | Annotated[float, Field(ge=0)] | None = Field(None, description="CPU cores.")
    memory: Quantity | None = Field(None, description="Memory.")
    ephemeralStorage: Quantity | None = Field(None, description="Local disk space of the node.")


class Resources(Values):
    """Resource requests and limits of a container."""

    requests: Amounts = Field(Amounts(), description="Resources reserved for the container.")
    limits: Amounts = Field(Amounts(), description="Upper bounds.")


class Probe(Values):
    """A kubelet's probe."""

    periodSeconds: Annotated[int, Field(ge=1)] = Field(5, description="Interval between probes.")
    timeoutSeconds: Annotated[int, Field(ge=1)] = Field(3, description="Timeout of a probe.")
    failureThreshold: Annotated[int, Field(ge=1)] = Field(
        3, description="Number of consecutive failures after which the pod counts as failed."
    )


class DisruptionBudget(Values):
    """A PodDisruptionBudget: how many pods may be evicted at once."""

    enabled: bool = Field(True, description="Create the PodDisruptionBudget.")
    maxUnavailable: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[0-9]+%$")] = (
        Field(1, description="Number or percentage of pods that may be unavailable.")
    )


class TopologySpread(Values):
    """Spread of the pods: `ScheduleAnyway`, `DoNotSchedule`, or empty for none."""

    hosts: WhenUnsatisfiable = Field("ScheduleAnyway", description="Spread over nodes.")
    zones: WhenUnsatisfiable = Field("ScheduleAnyway", description="Spread over zones.")


class Toleration(Values):
    """A taint that pods tolerate."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None


class Affinity(Values):
    """Terms as in a pod's `affinity`; the API server validates them."""

    nodeAffinity: dict[str, Any] | None = Field(None, description="Node affinity.")
    podAffinity: dict[str, Any] | None = Field(None, description="Pod affinity.")
    podAntiAffinity: dict[str, Any] | None = Field(None, description="Pod anti-affinity.")


class Variable(Values):
    """An environment variable of a container."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: str | None = None
    valueFrom: dict[str, Any] | None = None


class Component(Values):
    """Values that both components have."""

    image: Image = Field(Image(), description="The image.")
    podAnnotations: Labels = Field({}, description="Additional annotations of the pods.")
    podLabels: Labels = Field({}, description="Additional labels of the pods.")
    extraEnv: list[Variable] = Field(
        [],
        description="Additional environment variables, such as a proxy's. `SPECGATE_*` takes "
        "precedence over `settings`.",
    )
    nodeSelector: Labels = Field({}, description="Labels that a node must have.")
    tolerations: list[Toleration] = Field([], description="Taints that the pods tolerate.")
    affinity: Affinity = Field(Affinity(), description="Node and pod affinity.")
    topologySpread: TopologySpread = Field(TopologySpread(), description="Spread of the pods.")
    priorityClassName: Name = Field("", description="Priority class of the pods.")
    serviceAccount: ServiceAccount = Field(
        ServiceAccount(), description="Service account of the pods."
    )
    disruptionBudget: DisruptionBudget = Field(
        DisruptionBudget(), description="How many pods may be unavailable at once."
    )
