"""Values of the engine's StatefulSet or LeaderWorkerSet and the objects around it."""

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
        description="Number of GPUs; 0: the engine runs on CPUs. Otherwise it must be the number "
        "of GPUs that `settings.engine.vllm` distributes the model over.",
    )
    resource: Annotated[str, Field(min_length=1)] = Field(
        "nvidia.com/gpu", description="Name of the extended resource."
    )
    runtimeClassName: Name = Field("", description="Runtime class that GPUs need, if any.")


class Cache(Values):
    """The volume with models, compiled code and saved suffix indexes (`/var/lib/specgate`)."""

    existingClaim: Name = Field(
        "",
        description="A claim that all pods share (ReadWriteMany); empty: each pod has its own.",
    )
    size: Quantity = Field("100Gi", description="Size of a pod's own claim.")
    storageClassName: Name = Field("", description="Storage class of the claims; empty: default.")
    whenScaled: Literal["Retain", "Delete"] = Field(
        "Retain", description="Whether the volumes of pods removed by scaling are retained."
    )
    whenDeleted: Literal["Retain", "Delete"] = Field(
        "Retain", description="Whether all volumes are retained when the StatefulSet is deleted."
    )


class SuffixShare(Values):
    """A volume where workers share what their suffix indexes hold (`suffix.share`)."""

    existingClaim: Name = Field(
        "",
        description="A claim that all pods mount (ReadWriteMany); empty: none. For an object store "
        "set `settings.engine.speculation.suffix.share` instead.",
    )


class Drain(Values):
    """How a terminating pod finishes its requests."""

    removalSeconds: Seconds = Field(
        40,
        description="First phase: it still accepts requests until gateways no longer know its "
        "address: the TTL of the cluster's DNS (30 s by default) plus "
        "`settings.gateway.upstream.resolve_seconds`.",
    )
    finishSeconds: Seconds = Field(
        300, description="Second phase: how long running requests may take to finish."
    )


class Keda(Values):
    """A ScaledObject for KEDA, which must be installed; it replaces `replicas`."""

    enabled: bool = Field(False, description="Create the ScaledObject.")
    serverAddress: str = Field("", description="URL of the Prometheus that scrapes the engines.")
    minReplicas: Annotated[int, Field(ge=1)] = Field(
        1, description="Minimum number of pods; at least one, since pods report the queue."
    )
    maxReplicas: Annotated[int, Field(ge=1)] = Field(4, description="Maximum number of pods.")
    pollingSeconds: Annotated[int, Field(ge=1)] = Field(15, description="Polling interval.")
    cooldownSeconds: Seconds = Field(
        600, description="How long demand must be lower before a pod is removed."
    )
    waitingRequests: Annotated[float, Field(gt=0)] = Field(
        4, description="Target number of requests per pod that wait, at the gateway or in vLLM."
    )
    draftPrice: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8,
        description="Drafts count as priced out of a pod from this `engine_spec_price` on, and the "
        "pod as short of capacity if requests wait as well.",
    )
    pricedOut: Annotated[float, Field(gt=0, le=1)] = Field(
        0.5, description="Target share of the pods that are short of capacity."
    )
    kvCacheUsage: Annotated[float, Field(gt=0, le=1)] = Field(
        0.8, description="Target share of the KV cache in use, averaged over the pods."
    )


class MultiNode(Values):
    """A model on several nodes: each replica is a LeaderWorkerSet group of pods joined by Ray."""

    enabled: bool = Field(
        False,
        description="Use a LeaderWorkerSet, which must be installed, instead of a StatefulSet.",
    )
    nodes: Annotated[int, Field(ge=2)] = Field(2, description="Pods per group.")


class EngineValues(Component):
    """The workers: vLLM with our speculation."""

    enabled: bool = Field(
        True, description="Run workers; otherwise list remote ones in `settings.gateway.workers`."
    )
    image: Image = Field(
        Image(tag="cpu"),
        description="Where you pushed the Dockerfile's target `cpu` or `cuda`.",
    )
    replicas: Annotated[int, Field(ge=0)] = Field(
        1, description="Number of workers; with `multiNode`, of groups."
    )
    resources: Resources = Field(
        Resources(requests=Amounts(cpu="2", memory="6Gi"), limits=Amounts(memory="8Gi")),
        description="Resources of each pod, except GPUs.",
    )
    gpus: Gpus = Field(Gpus(), description="GPUs of each pod.")
    sharedMemory: Quantity = Field(
        "1Gi",
        description="Size of `/dev/shm`, which counts towards the memory limit; the ranks of a "
        "model communicate through it.",
    )
    cache: Cache = Field(Cache(), description="Volume for models and other reproducible files.")
    suffixShare: SuffixShare = Field(
        SuffixShare(), description="Where new workers find what others have served."
    )
    huggingFaceToken: SecretKey = Field(
        SecretKey(secretKey="token"), description="`HF_TOKEN`, for gated models."
    )
    startSeconds: Annotated[int, Field(ge=10)] = Field(
        1800,
        description="Maximum time from start to healthy (download, conversion, loading, "
        "compilation); after it the pod is restarted.",
    )
    liveness: Probe = Field(
        Probe(periodSeconds=10, timeoutSeconds=10, failureThreshold=6),
        description="Asks `/health`; vLLM answers 503 when its engine is dead. A pod that fails "
        "is restarted.",
    )
    readiness: Probe = Field(
        Probe(timeoutSeconds=5),
        description="Asks `/health`; a pod that fails is removed from the DNS name.",
    )
    drain: Drain = Field(Drain(), description="Termination of a pod.")
    keda: Keda = Field(Keda(), description="Scaling by queue, price of drafts and KV cache.")
    multiNode: MultiNode = Field(MultiNode(), description="For models that do not fit on one node.")
