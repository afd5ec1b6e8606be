"""The running requests of vLLM's V2 model runner, whose own records are on the device."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Request:
    """A request in the batch.

    Attributes:
        tokens: Its prompt and its output so far.
        prompt: Number of tokens of its prompt.
        most: Number of tokens that its output may have; None if it does not say.
        params: Its vLLM `SamplingParams`.
    """

    tokens: list[int]
    prompt: int
    most: int | None
    params: Any


class Requests:
    """The requests of a runner by id."""

    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}

    def __getitem__(self, request: str) -> Request:
        return self._requests[request]

    def get(self, request: str) -> Request | None:
        """Return a request; None if nobody told of it, or it is gone."""
        return self._requests.get(request)

    def update(self, added: Sequence[Any], gone: Collection[str]) -> None:
        """Follow a step's scheduler output.

        Args:
            added: vLLM's `NewRequestData` of new and of resumed requests, which bring their output.
            gone: Requests that finished or were preempted.
        """
        for request in gone:
            self._requests.pop(request, None)
        for new in added:
            if new.sampling_params is None:  # a pooling model's
                continue
            self._requests[new.req_id] = Request(
                list(new.prefill_token_ids),
                new.prompt_len,
                new.sampling_params.max_tokens,
                new.sampling_params,
            )

    def extend(
        self, launched: Mapping[str, Request | None], sampled: Sequence[Sequence[int]]
    ) -> None:
        """Append new tokens to each of these requests, which a step had when it was launched.

        Raises:
            KeyError: Nobody told of one of them.
        """
        for (name, request), tokens in zip(launched.items(), sampled, strict=True):
            if request is None:
                raise KeyError(name)
            request.tokens += tokens

    def find(self, requests: Sequence[str]) -> dict[str, Request | None]:
        """Return these requests by id; None for one that nobody told of."""
        return dict(zip(requests, map(self._requests.get, requests), strict=True))

    def text(self, request: str) -> NDArray[np.int32]:
        """Return its prompt and output; shape (n,)."""
        return np.array(self._requests[request].tokens, np.int32)

    def left(self, request: str, *, longest: int) -> int:
        """Return how many tokens its output may still get.

        Args:
            request: Its id.
            longest: Most tokens of a text (`max_model_len`), which vLLM may lower at its start.
        """
        one = self._requests[request]
        left = longest - len(one.tokens)
        return left if one.most is None else min(left, one.most + one.prompt - len(one.tokens))
