"""A call in a running gateway, and its result."""

import json
from collections.abc import Mapping
from typing import Any

from gateway.admission import ANONYMOUS, Caller
from gateway.api import Services
from gateway.errors import GatewayError
from gateway.protocol import Endpoint
from gateway.serving import Call
from gateway.types import RequestId, RequestRecord
from tests.unit.gateway.ends import RecordingSink
from tests.unit.gateway.requests import CHAT


class Served:
    """One call and its result."""

    def __init__(
        self,
        *,
        sink: RecordingSink | None = None,
        caller: Caller = ANONYMOUS,
        endpoint: Endpoint = CHAT,
        stream: bool = False,
        model: str | None = None,
        more: Mapping[str, Any] | None = None,
        **fake: object,
    ) -> None:
        body: dict[str, Any] = {"messages": [], "stream": stream, "fake": fake, "max_tokens": 100}
        body |= more or {}
        if model is not None:
            body["model"] = model
        self.sink = sink or RecordingSink()
        self.call = Call(endpoint, caller, json.dumps(body).encode(), "worker-1", {"accept": "a"})
        self.record = RequestRecord(RequestId("r"), endpoint.path, "POST", 0.0)
        self.error: GatewayError | None = None

    async def by(self, services: Services) -> "Served":
        try:
            async with services.admission.enter(self.call.caller) as entry:
                await services.serving.serve(self.call, entry, self.sink, self.record)
        except GatewayError as error:
            self.error = error
        return self
