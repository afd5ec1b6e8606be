"""A whole JSON answer of a worker: read what it cost, complete its metrics, pass the rest on."""

from dataclasses import dataclass

from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import read_json_object
from gateway.protocol.request import InferenceRequest
from gateway.protocol.speculation_metrics import read_acceptance, with_sources
from gateway.protocol.usage import read_usage, usage_at_end
from gateway.types import Acceptance, Usage


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes for the client and what was read from them."""

    body: bytes
    usage: Usage | None = None
    acceptance: Acceptance | None = None


def read_answer(request: InferenceRequest, body: bytes) -> Answer:
    """Read a 2xx answer.

    Raises:
        UpstreamError: The worker answered something that is not JSON where JSON is due.
    """
    if request.endpoint.dialect is Dialect.PLAIN:
        return Answer(body, usage=usage_at_end(body))
    answer = read_json_object(body)
    acceptance = read_acceptance(answer)
    if acceptance is not None:
        body = with_sources(body, acceptance)
    return Answer(body, usage=read_usage(answer.get("usage")), acceptance=acceptance)
