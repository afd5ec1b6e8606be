"""Values of the engine's StatefulSet or LeaderWorkerSet and what stands around it."""

from typing import Annotated, Literal

from pydantic import Field

from helm.values.kubernetes import (
    Amounts,
    Component,
    Image,
    Name,
    Probe,
    Quantity,
    Resources,
    Seconds,
    SecretKey,
    Values,
)


class Gpus(Values):
    """GPUs of one pod."""

    count: Annotated[int, Field(ge=0)] = Field(
        0,
        description="How many; 0: the engine computes on CPUs. With any, they must be as many as "
        "`settings.engine.vllm` spreads the model over.",
    )
    resource: Annotated[str, Field(min_length=1)] = Field(
        "nvidia.com/gpu", description="Name of the resource that a node offers."
    )
    runtimeClassName: Name = Field("", description="Runtime class that GPUs need, if any.")


class Cache(Values):
    """The volume with models, compiled code and what suffix indexes keep (`/var/lib/specgate`)."""

    existingClaim: Name = Field(
        "", description="A claim that all pods share (ReadWriteMany); empty: each has its own."
    )
    size: Quantity = Field("100Gi", description="Size of a pod's own.")
    storageClassName: Name = Field("", description="Its storage class; empty: the default one.")
    whenScaled: Literal["Retain", "Delete"] = Field(
        "Retain", description="What becomes of the volumes of pods that are scaled away."
    )
    whenDeleted: Literal["Retain", "Delete"] = Field(
        "Retain", description="What becomes of all when the release is removed."
    )


class Drain(Values):
    """How a pod that is to end lets go of its requests."""

    removalSeconds: Seconds = Field(
        40,
        description="First phase: it serves on while gateways learn that it leaves: the TTL of "
        "the cluster's DNS (30 s by default) and `settings.gateway.upstream.resolve_seconds`.",
    )
    finishSeconds: Seconds = Field(
        300, description="Second phase: what still runs may finish for so long; then SIGTERM."
    )


class Keda(Values):
    """A ScaledObject for KEDA, which must be installed; `replicas` is left to it."""

    enabled: bool = Field(False, description="Create it.")
    serverAddress: str = Field("", description="URL of the Prometheus that scrapes the engines.")
    minReplicas: Annotated[int, Field(ge=1)] = Field(
        1, description="Fewest pods; the queue is measured by pods, so one has to be there."
    )
    maxReplicas: Annotated[int, Field(ge=1)] = Field(4, description="Most pods.")
    pollingSeconds: Annotated[int, Field(ge=1)] = Field(15, description="Between two looks.")
    cooldownSeconds: Seconds = Field(
        600, description="How long demand must be lower before a pod is taken away."
    )
    waitingRequests: Annotated[float, Field(gt=0)] = Field(
        4, description="Requests that wait in vLLM's queue, a pod, that it aims at."
    )
    kvCacheUsage: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8, description="Part of the KV cache in use, on average, that it aims at."
    )


class MultiNode(Values):
    """A model over several nodes: one LeaderWorkerSet group of pods, joined by Ray, a replica."""

    enabled: bool = Field(
        False, description="Use it instead of a StatefulSet; LeaderWorkerSet must be installed."
    )
    nodes: Annotated[int, Field(ge=2)] = Field(2, description="Pods of a group.")


class EngineValues(Component):
    """The workers: vLLM with our speculation."""

    enabled: bool = Field(
        True, description="Run workers; else name remote ones in `settings.gateway.workers`."
    )
    image: Image = Field(
        Image(tag="cpu"), description="The Dockerfile's target `cpu` or `cuda`, as you pushed it."
    )
    replicas: Annotated[int, Field(ge=0)] = Field(
        1, description="Workers; with `multiNode` groups of pods."
    )
    resources: Resources = Field(
        Resources(requests=Amounts(cpu="2", memory="6Gi"), limits=Amounts(memory="8Gi")),
        description="Of each pod, GPUs aside.",
    )
    gpus: Gpus = Field(Gpus(), description="GPUs of each pod.")
    sharedMemory: Quantity = Field(
        "1Gi",
        description="Size of `/dev/shm`, part of the memory limit; ranks of a model talk "
        "through it.",
    )
    cache: Cache = Field(Cache(), description="Volume for what can be made again.")
    huggingFaceToken: SecretKey = Field(
        SecretKey(secretKey="token"), description="`HF_TOKEN`, for gated models."
    )
    startSeconds: Annotated[int, Field(ge=10)] = Field(
        1800,
        description="From start to healthy at most: download, conversion, loading, compilation. "
        "Beyond it the pod is restarted.",
    )
    liveness: Probe = Field(
        Probe(periodSeconds=10, timeoutSeconds=10, failureThreshold=6),
        description="`/health`: vLLM answers 503 when its engine is dead. Then it is restarted.",
    )
    readiness: Probe = Field(
        Probe(timeoutSeconds=5),
        description="`/health` as well: a pod that fails it leaves the DNS name.",
    )
    drain: Drain = Field(Drain(), description="How it ends.")
    keda: Keda = Field(Keda(), description="By its queue and its KV cache.")
    multiNode: MultiNode = Field(MultiNode(), description="For models that one node cannot hold.")
