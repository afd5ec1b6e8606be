"""A whole JSON answer of a worker: read what it cost, complete its metrics, pass the rest on."""

from dataclasses import dataclass

from gateway.protocol.endpoints import Dialect
from gateway.protocol.json_object import read_json_object
from gateway.protocol.request import InferenceRequest
from gateway.protocol.speculation_metrics import SpeculationReport, read_report, with_sources
from gateway.protocol.usage import read_usage, usage_at_end, with_prediction_counts
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
    usage, report = read_usage(answer.get("usage")), read_report(answer)
    if report is None:
        return Answer(body, usage=usage)
    return Answer(completed(body, request, report), usage=usage, acceptance=report.acceptance)


def completed(text: bytes, request: InferenceRequest, report: SpeculationReport) -> bytes:
    """An answer, or a stream's usage chunk, with all that `report` tells the client."""
    text = with_sources(text, report)
    accepted = report.acceptance.predicted
    if accepted is None or not request.predicted_tokens:
        return text
    rejected = max(0, len(request.predicted_tokens) - accepted)
    return with_prediction_counts(text, accepted=accepted, rejected=rejected)
