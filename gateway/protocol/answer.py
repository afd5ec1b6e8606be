"""A worker's complete JSON answer: read its usage, complete its metrics, keep the rest as it is."""

from dataclasses import dataclass

from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import read_worker_object
from gateway.protocol.request import InferenceRequest
from gateway.protocol.seen_tokens import SeenTokens
from gateway.protocol.speculation_metrics import SpeculationReport, read_report, with_sources
from gateway.protocol.turn import marked
from gateway.protocol.usage import read_usage, usage_at_end, with_prediction_counts
from gateway.types import Acceptance, Usage


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes for the client, and what was read from them.

    Attributes:
        seen: The tokens, if the canary watches the request.
    """

    body: bytes
    usage: Usage | None = None
    acceptance: Acceptance | None = None
    seen: SeenTokens | None = None


def read_answer(request: InferenceRequest, body: bytes) -> Answer:
    """Read a 2xx answer.

    Raises:
        UpstreamError: The answer should be JSON and is not.
    """
    if request.endpoint.dialect is Dialect.PLAIN:
        return Answer(body, usage=usage_at_end(body))
    answer = read_worker_object(body)
    seen = None if request.watch is None else SeenTokens(request.watch)
    if seen is not None:
        body = seen.take(body)
    if request.turn is not None:
        body = marked(body, request.turn)
    usage, report = read_usage(answer.usage), read_report(answer.metrics)
    if report is None:
        return Answer(body, usage=usage, seen=seen)
    return Answer(completed(body, request, report), usage, report.acceptance, seen)


def completed(text: bytes, request: InferenceRequest, report: SpeculationReport) -> bytes:
    """Add the counts in `report` to an answer, or to the usage chunk of a stream."""
    text = with_sources(text, report)
    accepted = report.acceptance.predicted
    if accepted is None or not request.predicted_tokens:
        return text
    rejected = max(0, len(request.predicted_tokens) - accepted)
    return with_prediction_counts(text, accepted=accepted, rejected=rejected)
