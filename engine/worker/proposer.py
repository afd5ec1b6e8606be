"""The drafter that vLLM is given where none of its own is wanted (`method: custom_class`)."""

from typing import Any


class NoDrafts:
    """Proposes nothing; our drafts are made when vLLM takes them (runner.py)."""

    def __init__(self, vllm_config: Any) -> None:
        pass

    def load_model(self, target: Any) -> None:
        """There is none."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request."""
        return [[] for _ in sampled_token_ids]
