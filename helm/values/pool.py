"""Values of the InferencePool, for clusters with the Gateway API Inference Extension."""

from typing import Annotated, Any, Literal

from pydantic import Field

from helm.values.kubernetes import Name, Values


class EndpointPicker(Values):
    """The Service that an inference gateway asks for one of the pool's pods."""

    name: Name = Field("", description="Name of its Service, which the chart does not create.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(9002, description="Port of its Service.")
    failureMode: Literal["FailOpen", "FailClose"] = Field(
        "FailOpen",
        description="When it does not answer: `FailOpen`, any pod gets the request; `FailClose`, "
        "the request is dropped.",
    )


class InferencePool(Values):
    """An InferencePool (inference.networking.k8s.io/v1), which must be installed."""

    enabled: bool = Field(False, description="Create the InferencePool.")
    members: Literal["gateway", "engine"] = Field(
        "gateway",
        description="Which pods are in it. `gateway`: the inference gateway stands before "
        "ours. `engine`: it stands between ours and the workers, and "
        "`settings.gateway.workers` may name it.",
    )
    endpointPicker: EndpointPicker = Field(
        EndpointPicker(), description="What picks a pod for each request."
    )
    networkFrom: list[dict[str, Any]] = Field(
        [],
        description="Pods of the inference gateway and of the endpoint picker, as in a "
        "NetworkPolicy's `from`: with `members: engine` workers accept their connections.",
    )
