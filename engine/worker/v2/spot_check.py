"""Takes one drafted place in a few steps on V2, and tests that its token was sampled as it should.

Nothing waits: what a place needs is computed on the device behind the sampling, and one number is
copied to the CPU before the step's tokens are. It is read when these are (docs/adr/0046).
"""

import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from vllm.v1.worker.gpu import model_runner as vllms
from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

from engine.worker.sampling import decodes_plainly, temperature_of
from engine.worker.uniform import CHECK_EVERY, UniformTest
from engine.worker.v2.requests import Request

_log = logging.getLogger(__name__)

_RejectionSampler: Any = RejectionSampler


@dataclass(frozen=True, slots=True)
class Place:
    """A drafted place of a step; tensors are on the device.

    Attributes:
        row: Of its request in the batch.
        at: Tokens of the draft before it, which must have been accepted.
        line: Its row of logits.
        draft: The drafted token, [1].
        probabilities: Of all tokens under the target, [vocabulary].
    """

    row: int
    at: int
    line: int
    draft: torch.Tensor
    probabilities: torch.Tensor


class SpotCheck:
    """Checks places, one after the other; an error ends the checks and nothing else.

    Args:
        test: Takes the results.
        find: Returns a request of the batch by its id; None for one that nobody told of.
        rng: Chooses places.
    """

    def __init__(
        self,
        test: UniformTest,
        find: Callable[[str], Request | None],
        rng: random.Random | None = None,
    ) -> None:
        self._test = test
        self._find = find
        self._random = rng or random.Random()  # noqa: S311  # no secret
        self._steps = 0
        self._value: torch.Tensor | None = None
        self._is_failed = False

    def begin(self, logits: torch.Tensor, batch: Any) -> Place | None:
        """Choose a place before a step is sampled; None in most steps.

        Args:
            logits: Shape (drafted + requests, vocabulary); not changed.
            batch: vLLM's `InputBatch`, in which some requests have drafts.
        """
        self._steps += 1
        if self._is_failed or self._steps % CHECK_EVERY:
            return None
        try:
            return self._choose(logits, batch)
        except Exception as exc:  # noqa: BLE001  # logged, and never a failed request
            self._fail(exc)
            return None

    def end(self, place: Place, output: Any, invalid: torch.Tensor | None) -> None:
        """Compute the transform of the token that came at the place; NaN if none came.

        Args:
            place: Of `begin`.
            output: vLLM's `SamplerOutput` of the step.
            invalid: Whether a grammar forbids the token that was drafted to be the input of each
                row of logits; None: nowhere.
        """
        try:
            sampled, counts = output.sampled_token_ids, output.num_sampled
            fraction, row, at = self._random.random(), place.row, place.at
            value = transform(place.probabilities, place.draft, sampled[row, at : at + 1], fraction)
            counted = counts[row : row + 1] > at
            if invalid is not None:
                counted = counted & ~invalid[place.line + 1 : place.line + 2]
            value = torch.where(counted, value, torch.nan)
            self._value = value.to("cpu", non_blocking=True)
        except Exception as exc:  # noqa: BLE001  # as above
            self._fail(exc)

    def take(self) -> torch.Tensor | None:
        """Return the number of the step that was just sampled, on its way to the CPU, if any."""
        value, self._value = self._value, None
        return value

    def collect(self, value: torch.Tensor) -> None:
        """Test a number that `take` returned, once the tokens of its step are on the CPU."""
        number = float(value.numpy()[0])
        if not math.isnan(number):
            self._test.add(number)

    def _choose(self, logits: torch.Tensor, batch: Any) -> Place | None:
        # Of a random request, not of a random sampled one: to look at all of them takes time.
        row = self._random.choice(np.flatnonzero(batch.num_draft_tokens_per_req).tolist())
        request = self._find(batch.req_ids[row])
        if request is None or not _is_tested(request):
            return None
        at = self._random.randrange(int(batch.num_draft_tokens_per_req[row]))
        line = int(batch.cu_num_logits_np[row]) + at
        # The draft of a place is the input of the next one.
        draft = batch.input_ids.index_select(0, batch.logits_indices[line + 1 : line + 2])
        return Place(row, at, line, draft, probabilities_of(logits[line], request.params))

    def _fail(self, exc: Exception) -> None:
        self._is_failed = True
        _log.error("sampled tokens are not checked any more", exc_info=exc)


class CheckedSampler(_RejectionSampler):
    """vLLM's rejection sampler with checks.

    Attributes:
        check: Of the rank that drafts; None on the others.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check: SpotCheck | None = None

    def __call__(
        self,
        logits: torch.Tensor,
        input_batch: Any,
        draft_logits: torch.Tensor | None = None,
        invalid_drafts: torch.Tensor | None = None,
    ) -> Any:
        """Sample and verify; test a place of the step."""
        place = None
        if self.check is not None and draft_logits is None and self._is_testable():
            place = self.check.begin(logits, input_batch)
        output = super().__call__(logits, input_batch, draft_logits, invalid_drafts)
        if place is not None and self.check is not None:
            self.check.end(place, output, invalid_drafts)
        return output

    def _is_testable(self) -> bool:
        """Whether a token depends on the target's probabilities at its place, and nothing else."""
        return not (
            self.enable_adaptive_verification
            or self.use_block_verification
            or self.synthetic_conditional_rates is not None
            or self.watermark_key is not None
            or not all(map(_is_vllms, self.sampler.logits_processors))
        )


def _is_vllms(processor: Any) -> bool:
    """Whether vLLM brings a logits processor. Requests that use one of these are left out."""
    return type(processor).__module__.startswith("vllm.")


def take_our_sampler() -> None:
    """Have this process's V2 runners verify with the sampler that can be checked."""
    vllms.RejectionSampler = CheckedSampler


def _is_tested(request: Request) -> bool:
    """Whether a request samples, and only temperature, top-k and top-p shape its probabilities.

    Before its first token is known, drafts may be placeholders, which vLLM refuses.
    """
    params = request.params
    return bool(
        len(request.tokens) > request.prompt
        and temperature_of(params) > 0.0
        and not decodes_plainly(params)
        and not params.presence_penalty
        and not params.frequency_penalty
        and params.repetition_penalty == 1.0
        and not params.bad_words
        and not params.allowed_token_ids
        and not params.min_tokens
        and params.thinking_token_budget is None
    )


def probabilities_of(logits: torch.Tensor, params: Any) -> torch.Tensor:
    """Return the probabilities from which a token is sampled, on the device of its logits.

    Args:
        logits: Shape (vocabulary,).
        params: `SamplingParams` with a temperature above 0.
    """
    scores = logits.to(torch.float32) / params.temperature
    if 0 < params.top_k < len(scores):
        least = scores.topk(params.top_k).values[-1:]
        scores = scores.masked_fill(scores < least, -torch.inf)
    if params.top_p < 1.0:
        # The likeliest tokens, up to the one with which they have this probability.
        likeliest, order = scores.softmax(-1).sort(descending=True)
        before = likeliest.cumsum(-1) - likeliest
        is_left_out = torch.zeros_like(scores, dtype=torch.bool).scatter(
            0, order, before >= params.top_p
        )
        scores = scores.masked_fill(is_left_out, -torch.inf)
    return scores.softmax(-1)


def transform(
    probabilities: torch.Tensor, draft: torch.Tensor, token: torch.Tensor, fraction: float
) -> torch.Tensor:
    """Return what `engine.worker.uniform.place_of` does, on the device; shape (1,).

    Args:
        probabilities: Of all tokens under the target, [vocabulary].
        draft: The token that was drafted, [1].
        token: The token that came, [1]; it may be none if nothing came.
        fraction: Drawn from [0, 1).
    """
    last = len(probabilities) - 1  # the device would fail at an index beyond it
    draft, token = (one.long().clamp(min=0, max=last) for one in (draft, token))
    first, own = probabilities.gather(0, draft), probabilities.gather(0, token)
    is_before = torch.arange(len(probabilities), device=probabilities.device) < token
    before = (probabilities * is_before).sum(dtype=torch.float64)
    replaced = first + before - first * (draft < token) + fraction * own
    return torch.where(token == draft, fraction * first, replaced).clamp(max=1.0)
