"""Values of the gateway's Deployment and the objects around it."""

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
    """A HorizontalPodAutoscaler; it replaces `replicas`."""

    enabled: bool = Field(False, description="Create the HorizontalPodAutoscaler.")
    minReplicas: Annotated[int, Field(ge=1)] = Field(2, description="Minimum number of pods.")
    maxReplicas: Annotated[int, Field(ge=1)] = Field(10, description="Maximum number of pods.")
    cpuUtilization: Annotated[int, Field(ge=1, le=100)] = Field(
        70, description="Target utilization, in percent of the requested CPU."
    )
    scaleDownSeconds: Annotated[int, Field(ge=0, le=3600)] = Field(
        300, description="How long demand must be lower before a pod is removed."
    )


class Service(Values):
    """The Service for clients."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        "ClusterIP", description="Type of the Service."
    )
    port: Annotated[int, Field(ge=1, le=65535)] = Field(80, description="Port of the Service.")
    annotations: Labels = Field({}, description="Annotations of the Service.")


class Ingress(Values):
    """An Ingress. Its controller must neither buffer responses nor cut off long streams."""

    enabled: bool = Field(False, description="Create the Ingress.")
    className: Name = Field("", description="Ingress class.")
    host: str = Field("", description="Host name.")
    paths: list[Annotated[str, Field(pattern="^/")]] = Field(
        ["/health", "/ping", "/version", "/tokenize", "/detokenize"],
        description="Exact paths that are served in addition to `/v1` and "
        "`settings.gateway.forward_paths`. `/metrics`, `/speculation`, `/live` and "
        "`/health/workers` need no key and are meant for the cluster only.",
    )
    tlsSecret: Name = Field("", description="Secret with the certificate; empty: no TLS.")
    annotations: Labels = Field({}, description="Annotations of the Ingress.")


class GatewayValues(Component):
    """The gateway, which needs CPU only and has no state."""

    image: Image = Field(
        Image(tag="gateway"), description="Where you pushed the Dockerfile's target `gateway`."
    )
    replicas: Annotated[int, Field(ge=0)] = Field(2, description="Number of pods.")
    autoscaling: Autoscaling = Field(Autoscaling(), description="Scaling by CPU utilization.")
    resources: Resources = Field(
        Resources(
            requests=Amounts(cpu="1", memory="512Mi"),
            limits=Amounts(memory="1Gi"),
        ),
        description="Resources of each pod. A gateway process uses one core; see "
        "`settings.gateway.processes`.",
    )
    service: Service = Field(Service(), description="The Service for clients.")
    ingress: Ingress = Field(Ingress(), description="Access from outside the cluster.")
    preStopSeconds: Annotated[Seconds, Field(ge=1)] = Field(
        10,
        description="First phase of the drain: how long a terminating pod keeps serving while it "
        "is removed from endpoints and load balancers. Then SIGTERM starts the gateway's own drain "
        "(`settings.gateway.drain`). The grace period is computed from both.",
    )
    liveness: Probe = Field(
        Probe(periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
        description="Asks `/health/live`: does the process respond? If not, it is restarted.",
    )
    readiness: Probe = Field(
        Probe(),
        description="Asks `/health/ready`: is a worker up, and has no drain started? If not, the "
        "pod gets no requests.",
    )
    networkFrom: list[dict[str, Any]] = Field(
        [],
        description="Peers that may connect, as in a NetworkPolicy's `from`; empty: all.",
    )
