"""The drafter that vLLM gets when none of its own is configured (`method: custom_class`)."""

from typing import Any


class NoDrafts:
    """Proposes nothing; our drafts are made when vLLM collects them (runner.py)."""

    def __init__(self, vllm_config: Any) -> None:
        pass

    def load_model(self, target: Any) -> None:
        """Do nothing."""

    def propose(self, sampled_token_ids: list[list[int]], *_: Any, **__: Any) -> list[list[int]]:
        """Return an empty draft for each request."""
        return [[] for _ in sampled_token_ids]
