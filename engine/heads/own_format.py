"""Our own layout: config.json is a `HeadConfig`, tensors have the names of `HeadWeights`."""

from pathlib import Path

import torch
from torch import Tensor

from engine.heads.config import HeadConfig
from engine.heads.layout import VOCABULARY, validate
from engine.heads.stored import SAFETENSORS, StoredWeights
from engine.heads.weights import HeadWeights


class OwnFormat:
    """A folder that `save_head` wrote; see `Layout`."""

    prefix = ""
    files = SAFETENSORS

    def __init__(self, path: Path, content: bytes) -> None:
        self.config = validate(HeadConfig, path, content)

    def read(self, stored: StoredWeights) -> dict[str, Tensor]:
        """See `Layout.read`."""
        with torch.device("meta"):
            expected = HeadWeights(self.config).state_dict()
        tensors = {name: stored.take(name, tensor.shape) for name, tensor in expected.items()}
        if self.config.draft_vocab_size is not None:
            tensors[VOCABULARY] = stored.take_integers(VOCABULARY, (self.config.draft_vocab_size,))
        return tensors
