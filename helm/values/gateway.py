"""Values of the gateway's Deployment and what stands around it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from helm.values.kubernetes import (
    Amounts,
    Component,
    Image,
    Labels,
    Name,
    Probe,
    Resources,
    Seconds,
    Values,
)


class Autoscaling(Values):
    """A HorizontalPodAutoscaler; `replicas` is left to it."""

    enabled: bool = Field(False, description="Create it.")
    minReplicas: Annotated[int, Field(ge=1)] = Field(2, description="Fewest pods.")
    maxReplicas: Annotated[int, Field(ge=1)] = Field(10, description="Most pods.")
    cpuUtilization: Annotated[int, Field(ge=1, le=100)] = Field(
        70, description="Percent of the requested CPU that it aims at."
    )
    scaleDownSeconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        300, description="How long demand must be lower before a pod is taken away."
    )


class Service(Values):
    """The Service that clients reach."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="Its type."
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(80, description="Its port.")
    annotations: Labels = Field({}, description="Its annotations.")


class Ingress(Values):
    """An Ingress. Let its controller neither buffer answers nor cut streams short."""

    enabled: bool = Field(False, description="Create it.")
    className: Name = Field("", description="Its class.")
    host: str = Field("", description="Its host name.")
    tlsSecret: Name = Field("", description="Secret with its certificate; empty: no TLS.")
    annotations: Labels = Field({}, description="Its annotations.")


class GatewayValues(Component):
    """The gateway: CPU only, no state."""

    image: Image = Field(
        Image(tag="gateway"), description="The Dockerfile's target `gateway`, as you pushed it."
    )
    replicas: Annotated[int, Field(ge=0)] = Field(2, description="Pods.")
    autoscaling: Autoscaling = Field(Autoscaling(), description="By load.")
    resources: Resources = Field(
        Resources(
            requests=Amounts(cpu="1", memory="512Mi"),
            limits=Amounts(memory="1Gi"),
        ),
        description="A process of the gateway uses one core; see `gateway.processes`.",
    )
    service: Service = Field(Service(), description="How clients reach it.")
    ingress: Ingress = Field(Ingress(), description="How they reach it from outside.")
    preStopSeconds: Annotated[Seconds, Field(ge=1)] = Field(
        10,
        description="Drain, first phase: a pod that is to end serves on for so long, while it is "
        "taken out of endpoints and load balancers. Then SIGTERM begins the gateway's own drain "
        "(`settings.gateway.drain`); the grace period follows from both.",
    )
    liveness: Probe = Field(
        Probe(periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        description="`/health/live`: does the process answer? If not, it is restarted.",
    )
    readiness: Probe = Field(
        Probe(),
        description="`/health/ready`: is a worker up, and no drain begun? If not, no requests.",
    )
    networkFrom: list[dict[str, Any]] = Field(
        [], description="Peers that the NetworkPolicy lets in, Kubernetes' own terms; empty: all."
    )
