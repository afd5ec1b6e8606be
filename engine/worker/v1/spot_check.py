"""Takes one drafted place in a few steps, and tests that its token was sampled as it should be.

Only on CPUs: there the logits and the tokens of a step are at hand without waiting for a device.
"""

import logging
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p

from engine.worker.uniform import CHECK_EVERY, UniformTest, place_of
from engine.worker.v1.verification import leaves_logits

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """A drafted place of a step.

    Attributes:
        row: Of its request in the batch.
        at: Tokens of the draft before it, which must have been accepted.
        draft: The drafted token.
        probabilities: Of all tokens under the target, [vocabulary].
    """

    row: int
    at: int
    draft: int
    probabilities: NDArray[np.float32]


class SpotCheck:
    """Checks places, one after the other; an error ends the checks and nothing else.

    Args:
        test: Takes the results.
        rng: Chooses places.
    """

    def __init__(self, test: UniformTest, rng: random.Random | None = None) -> None:
        self._test = test
        self._random = rng or random.Random()  # noqa: S311  # no secret
        self._steps = 0
        self._is_failed = False

    def begin(self, metadata: Any, logits: torch.Tensor, sampling: Any) -> Place | None:
        """Choose a place before a step is sampled; None in most steps.

        Args:
            metadata: vLLM's `SpecDecodeMetadata`.
            logits: Shape (drafted + requests, vocabulary), on a CPU; not changed.
            sampling: vLLM's `SamplingMetadata`.
        """
        if self._is_failed or sampling.all_greedy:
            return None
        self._steps += 1
        if self._steps % CHECK_EVERY:
            return None
        try:
            return self._choose(metadata, logits, sampling)
        except Exception as exc:  # noqa: BLE001  # logged, and never a failed request
            self._fail(exc)
            return None

    def end(self, place: Place, sampled: torch.Tensor) -> None:
        """Test the token that came at the place, if its draft was accepted that far.

        Args:
            place: Of `begin`.
            sampled: The step's tokens, [requests, longest draft + 1]; negative ones are no tokens.
        """
        try:
            token = int(sampled[place.row, place.at])
            if token >= 0:
                fraction = self._random.random()
                self._test.add(
                    place_of(place.probabilities, draft=place.draft, token=token, fraction=fraction)
                )
        except Exception as exc:  # noqa: BLE001  # as above
            self._fail(exc)

    def _choose(self, metadata: Any, logits: torch.Tensor, sampling: Any) -> Place | None:
        if not leaves_logits(sampling):
            return None
        counts = list(metadata.num_draft_tokens)
        temperatures = sampling.temperature.tolist()
        rows = [row for row, count in enumerate(counts) if count and temperatures[row] > 0.0]
        if not rows:
            return None
        row = self._random.choice(rows)
        at = self._random.randrange(counts[row])
        place = sum(counts[:row]) + at
        line = int(metadata.target_logits_indices[place])
        # NumPy where it can: torch would share each of these small sums among its threads, and wait
        # for the slowest.
        scores = torch.from_numpy(logits[line].to(torch.float32).numpy() / temperatures[row])
        scores = apply_top_k_top_p(
            scores.unsqueeze(0),
            None if sampling.top_k is None else sampling.top_k[row : row + 1],
            None if sampling.top_p is None else sampling.top_p[row : row + 1],
        )
        probabilities = scores[0].softmax(-1).numpy()
        return Place(row, at, int(metadata.draft_token_ids[place]), probabilities)

    def _fail(self, exc: Exception) -> None:
        self._is_failed = True
        _log.error("sampled tokens are not checked any more", exc_info=exc)
