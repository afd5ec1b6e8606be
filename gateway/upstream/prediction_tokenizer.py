"""Has a worker tokenize a request's prediction. On failure only the prediction is dropped."""

import structlog

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol import read_tokens, tokenize_body
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)

_CHARACTERS_PER_TOKEN = 8
"""Twice the average of English and code. Longer text is cut before it is tokenized."""


class PredictionTokenizer:
    """Turns predicted text into token ids, within limits.

    Args:
        max_tokens: A longer prediction is cut; 0 ignores every prediction.
        timeout_seconds: Longest wait for a worker.
    """

    def __init__(self, *, max_tokens: int, timeout_seconds: float) -> None:
        self._max_tokens = max_tokens
        self._timeout_seconds = timeout_seconds

    async def tokenize(self, text: str, *, worker: Worker, model: str | None) -> tuple[int, ...]:
        """The first `max_tokens` ids of `text`; empty if the worker fails to tokenize it.

        Args:
            text: A prediction of any length.
            worker: The leased worker that will get the request.
            model: The model; None if the worker has only one.

        Raises:
            WorkerLostError: The worker cannot be reached, so the request cannot be sent either.
        """
        read = text[: self._max_tokens * _CHARACTERS_PER_TOKEN]
        if not read:
            return ()
        body = tokenize_body(read, model=model)
        try:
            try:
                tokens = await self._ask(worker, body)
            except WorkerLostError:
                # Usually an idle connection that the worker had closed; a second try does no harm.
                tokens = await self._ask(worker, body)
        except UpstreamError as error:
            if isinstance(error, WorkerLostError) and not error.sent:
                raise  # another worker will get the prediction and the request
            log.warning(
                "prediction_dropped", worker=worker.id, reason=error.reason, error=error.message
            )
            return ()
        kept = tuple(tokens[: self._max_tokens])
        if len(kept) < len(tokens) or len(read) < len(text):
            log.info(
                "prediction_cut",
                characters=len(text),
                characters_read=len(read),
                tokens_read=len(tokens),
                tokens=len(kept),
            )
        return kept

    async def _ask(self, worker: Worker, body: bytes) -> list[int]:
        return read_tokens(
            await worker.client.post_json("/tokenize", body, timeout_seconds=self._timeout_seconds)
        )
