"""Has a worker tokenize a request's prediction; if that fails, the prediction alone is lost."""

import structlog

from gateway.errors import UpstreamError, WorkerLostError
from gateway.protocol import read_tokens, tokenize_body
from gateway.upstream.worker import Worker

log = structlog.get_logger(__name__)

_CHARACTERS_PER_TOKEN = 8
"""Twice what English and code have: a longer text is cut before anybody tokenizes it."""


class PredictionTokenizer:
    """Turns predicted text into token ids, within bounds.

    Args:
        most_tokens: A longer prediction is cut; 0: every prediction is ignored.
        timeout_seconds: Longest time that a worker may take.
    """

    def __init__(self, *, most_tokens: int, timeout_seconds: float) -> None:
        self._most_tokens = most_tokens
        self._timeout_seconds = timeout_seconds

    async def tokenize(self, text: str, *, worker: Worker, model: str | None) -> tuple[int, ...]:
        """The first `most_tokens` ids of `text`, in order; none if the worker fails to say.

        Args:
            text: A prediction of any length.
            worker: A leased worker, the one that is to get the request.
            model: Whose tokens; None: of the only one.

        Raises:
            WorkerLostError: The worker was not reached, so the request could not reach it either.
        """
        read = text[: self._most_tokens * _CHARACTERS_PER_TOKEN]
        if not read:
            return ()
        body = tokenize_body(read, model=model)
        try:
            try:
                tokens = await self._ask(worker, body)
            except WorkerLostError:
                # Mostly an idle connection that the worker had closed; asking twice does no harm.
                tokens = await self._ask(worker, body)
        except UpstreamError as error:
            if isinstance(error, WorkerLostError) and not error.sent:
                raise  # another worker will be asked, for the tokens as for the answer
            log.warning(
                "prediction_dropped", worker=worker.id, reason=error.reason, error=error.message
            )
            return ()
        kept = tuple(tokens[: self._most_tokens])
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
            await worker.connection.post_json(
                "/tokenize", body, timeout_seconds=self._timeout_seconds
            )
        )
