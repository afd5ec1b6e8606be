"""The worker's endpoints, as plain ASGI: FastAPI's request handling would cost more than ours."""

import uuid
from collections.abc import Mapping

from starlette.types import Receive, Scope, Send

from gateway.api.asgi import (
    CLIENT_SOCKET,
    AsgiSink,
    BodyPolicy,
    ClientGoneError,
    ended_by_disconnect,
    presented_key,
    read_body,
)
from gateway.api.error_handler import DIALECT, error_response, note_error
from gateway.api.state import Services
from gateway.errors import GatewayError
from gateway.middleware import RECORD
from gateway.protocol import Endpoint
from gateway.serving import Call
from gateway.types import RequestRecord

_PASSED_ON = frozenset(
    (b"accept", b"traceparent", b"tracestate", b"anthropic-version", b"anthropic-beta")
)
_CLIENT_GONE_STATUS = 499


class InferenceRoute:
    """Serves one endpoint; an ASGI app."""

    def __init__(self, endpoint: Endpoint, body_policy: BodyPolicy) -> None:
        self._endpoint = endpoint
        self._body_policy = body_policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        services: Services = scope["state"]["services"]
        record: RequestRecord = scope[RECORD]
        scope[DIALECT] = self._endpoint.dialect
        headers = dict(scope["headers"])
        sink = AsgiSink(send, scope.get(CLIENT_SOCKET))
        try:
            caller = services.admission.recognise(presented_key(headers))
            record.tenant, record.key_id = caller.tenant, caller.key_id
            async with services.admission.enter(caller) as entry:
                body = await read_body(receive, headers, entry.hold, self._body_policy)
                call = Call(
                    endpoint=self._endpoint,
                    caller=caller,
                    body=body,
                    worker_request_id=_worker_request_id(record, headers),
                    headers=_worker_headers(headers),
                    pacing=_pacing(headers),
                )
                async with ended_by_disconnect(receive, sink):
                    await services.serving.serve(call, entry, sink, record)
        except ClientGoneError:
            status = record.status if sink.started else _CLIENT_GONE_STATUS
            record.note_failure(status, "cancelled", None, "client_gone")
        except GatewayError as error:
            if not sink.started:
                await error_response(scope, error)(scope, receive, send)
                return
            # Part of the answer was sent. The server closes the connection of an answer that has
            # no end, which tells the client that it is incomplete.
            note_error(record, error)


def _worker_request_id(record: RequestRecord, headers: Mapping[bytes, bytes]) -> str:
    """An id that is unique even if a client repeats its own; vLLM identifies requests by it."""
    if b"x-request-id" in headers:
        return f"{record.request_id}-{uuid.uuid4().hex[:12]}"
    return record.request_id


def _worker_headers(headers: Mapping[bytes, bytes]) -> dict[str, str]:
    """The client's headers that are forwarded: no keys, cookies or addresses."""
    passed = {
        name.decode(): value.decode("latin-1")
        for name, value in headers.items()
        if name in _PASSED_ON
    }
    return {**passed, "content-type": "application/json"}


def _pacing(headers: Mapping[bytes, bytes]) -> str | None:
    asked = headers.get(b"x-pacing")
    return None if asked is None else asked.decode("latin-1")
