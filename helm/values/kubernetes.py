"""Parts that gateway and engine share, and the pieces of Kubernetes' own API that pass through."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Name = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$", max_length=253)]
"""Name of an object; empty: none."""
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")]
"""Source: Kubernetes, `apimachinery/pkg/api/resource` (without its exponent forms)."""
Seconds = Annotated[int, Field(ge=0, le=86400)]
Labels = dict[str, str]
WhenFull = Literal["", "ScheduleAnyway", "DoNotSchedule"]


class Values(BaseModel):
    """A group of values; a name that it does not have is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Image(Values):
    """Where an image comes from."""

    repository: Annotated[str, Field(min_length=1)] = Field("specgate", description="Its name.")
    tag: str = Field("", description="Its tag.")
    digest: Annotated[str, Field(pattern=r"^(sha256:[0-9a-f]{64})?$")] = Field(
        "", description="Its digest; wins over the tag."
    )
    pullPolicy: Literal["Always", "IfNotPresent", "Never"] = Field(
        "IfNotPresent", description="When a node pulls it."
    )


class SecretKey(Values):
    """A key of a Secret that exists already; the chart creates none."""

    existingSecret: Name = Field("", description="The Secret's name; empty: none.")
    secretKey: Annotated[str, Field(min_length=1)] = Field("key", description="The key in it.")


class NamedSecret(Values):
    """A reference to a Secret."""

    name: Annotated[str, Field(min_length=1)]


class ServiceAccount(Values):
    """The account that pods run as; they get no token, since they never ask Kubernetes."""

    create: bool = Field(True, description="Create it.")
    name: Name = Field("", description="Its name; empty: that of the component.")
    annotations: Labels = Field({}, description="Annotations, such as a cloud's identity.")


class Amounts(Values):
    """Compute resources of a container, by name."""

    cpu: Quantity | Annotated[float, Field(ge=0)] | None = Field(None, description="Cores.")
    memory: Quantity | None = Field(None, description="Memory.")
    ephemeralStorage: Quantity | None = Field(None, description="Disk of the node.")


class Resources(Values):
    """What a container asks for, and what it may have at most."""

    requests: Amounts = Field(Amounts(), description="What is set aside for it.")
    limits: Amounts = Field(Amounts(), description="What it may have at most.")


class Probe(Values):
    """How often the kubelet looks, and when it draws a conclusion."""

    periodSeconds: Annotated[int, Field(ge=1)] = Field(5, description="Between two looks.")
    timeoutSeconds: Annotated[int, Field(ge=1)] = Field(3, description="Longest wait for one.")
    failureThreshold: Annotated[int, Field(ge=1)] = Field(
        3, description="Failures in a row that count."
    )


class DisruptionBudget(Values):
    """How many pods a drain of nodes may take at once."""

    enabled: bool = Field(True, description="Create it.")
    maxUnavailable: Annotated[int, Field(ge=1)] | Annotated[str, Field(pattern=r"^[0-9]+%$")] = (
        Field(1, description="Pods, or a percentage of them, that may be missing.")
    )


class TopologySpread(Values):
    """How pods are spread; each is `ScheduleAnyway`, `DoNotSchedule`, or empty for not at all."""

    hosts: WhenFull = Field("ScheduleAnyway", description="Over nodes.")
    zones: WhenFull = Field("ScheduleAnyway", description="Over zones.")


class Toleration(Values):
    """A taint that pods tolerate."""

    key: str | None = None
    operator: Literal["Exists", "Equal"] | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    tolerationSeconds: int | None = None


class Affinity(Values):
    """Kubernetes' own terms; the API server checks what is inside."""

    nodeAffinity: dict[str, Any] | None = Field(None, description="To nodes.")
    podAffinity: dict[str, Any] | None = Field(None, description="To pods.")
    podAntiAffinity: dict[str, Any] | None = Field(None, description="Away from pods.")


class Variable(Values):
    """An environment variable of a container."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    value: str | None = None
    valueFrom: dict[str, Any] | None = None


class Component(Values):
    """What can be said about the pods of both components."""

    image: Image = Field(Image(), description="The image.")
    podAnnotations: Labels = Field({}, description="More annotations of the pods.")
    podLabels: Labels = Field({}, description="More labels of the pods.")
    extraEnv: list[Variable] = Field(
        [],
        description="More environment variables, such as a proxy's. `SPECGATE_*` wins over "
        "`settings`.",
    )
    nodeSelector: Labels = Field({}, description="Labels that a node must have.")
    tolerations: list[Toleration] = Field([], description="Taints of nodes that are tolerated.")
    affinity: Affinity = Field(Affinity(), description="Node and pod affinity.")
    topologySpread: TopologySpread = Field(TopologySpread(), description="Spread of the pods.")
    priorityClassName: Name = Field("", description="Priority class of the pods.")
    serviceAccount: ServiceAccount = Field(ServiceAccount(), description="Their account.")
    disruptionBudget: DisruptionBudget = Field(
        DisruptionBudget(), description="How many of them may be missing."
    )
