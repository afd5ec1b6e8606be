"""The peer's side: arctic-inference's suffix cache, in a process with its own environment.

.bench/peers/arctic/bin/python -m bench.suffix.arctic TOKENS.npz
"""

import sys
from collections.abc import Mapping, Sequence

from arctic_inference.suffix_decoding import (  # type: ignore[import-not-found]  # only there
    SuffixDecodingCache,
)

from bench.suffix.datasets import Tokens
from bench.suffix.worker import COMMANDS, serve


class Arctic:
    """Calls the cache as vLLM's proposer does.

    Args:
        setting: `depth`, `cap`, `factor` and `min_probability`; see `plan.ArcticSetting`.
    """

    def __init__(self, setting: Mapping[str, float]) -> None:
        self._depth = int(setting["depth"])
        self._cap = int(setting["cap"])
        self._factor = float(setting["factor"])
        self._least = float(setting["min_probability"])
        self._cache = SuffixDecodingCache(
            max_tree_depth=self._depth, max_cached_requests=int(setting["cached_requests"])
        )
        self.start = self._cache.start_request
        self.append = self._cache.add_active_response
        self.finish = self._cache.stop_request

    def propose(self, name: str, text: Tokens, end: int) -> tuple[object, list[int]]:
        draft = self._cache.speculate(
            name,
            text[max(0, end - self._depth) : end],
            max_spec_tokens=self._cap,
            max_spec_factor=self._factor,
            max_spec_offset=0.0,
            min_token_prob=self._least,
        )
        return draft, draft.token_ids

    def propose_rows(
        self, names: Sequence[str], texts: Sequence[tuple[Tokens, int]]
    ) -> list[list[int]]:
        rows = zip(names, texts, strict=True)
        return [self.propose(name, text, end)[1] for name, (text, end) in rows]

    def claims(self, draft: object) -> tuple[Sequence[float], Sequence[float]]:
        probabilities: Sequence[float] = draft.probs  # type: ignore[attr-defined]  # untyped peer
        return probabilities, probabilities

    def claimed_bytes(self) -> int:
        # There is no public call for it.
        return int(self._cache._global_tree.estimate_memory())


if __name__ == "__main__":
    sys.exit(serve(sys.argv[1], Arctic, COMMANDS))
