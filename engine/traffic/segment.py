"""A segment: consecutive rows of one request, as training reads them (`engine.training.shard`)."""

import hashlib
from dataclasses import dataclass

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from engine.errors import TrafficError

_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """Some rows of a request's text. A row is a hidden state and the token that follows it.

    Attributes:
        tenant: Digest of whose request it was.
        request: Digest of the request's id.
        target: Digest of the model and its tokenizer.
        prompt_rows: How many rows belong to the prompt; they come first.
        tokens: Int32, [rows].
        hidden: The target's last hidden states, bfloat16, [rows, hidden_size].
    """

    tenant: str
    request: str
    target: str
    prompt_rows: int
    tokens: Tensor
    hidden: Tensor

    @property
    def answer_tokens(self) -> int:
        """Rows of the answer."""
        return len(self.tokens) - self.prompt_rows

    def pack(self) -> bytes:
        """Return it as bytes."""
        numbers = torch.tensor([self.prompt_rows], dtype=torch.int32)
        content: bytes = save(
            {
                "hidden": self.hidden.contiguous(),
                "tokens": self.tokens,
                "prompt_rows": numbers,
                # Names travel inside, where the seal protects them.
                "names": torch.tensor(
                    list("\n".join((self.tenant, self.request, self.target)).encode()),
                    dtype=torch.uint8,
                ),
            }
        )
        return content

    @classmethod
    def unpack(cls, content: bytes) -> "Segment":
        """Read what `pack` returned.

        Raises:
            TrafficError: It is something else.
        """
        try:
            found = load(content)
            names = bytes(found["names"].tolist()).decode().split("\n")
            tenant, request, target = names
            prompt_rows = int(found["prompt_rows"][0])
            tokens, hidden = found["tokens"], found["hidden"]
        except (KeyError, ValueError, IndexError, SafetensorError) as exc:
            raise TrafficError(f"no segment: {exc}") from exc
        if tokens.ndim != 1 or hidden.ndim != 2 or len(tokens) != len(hidden):
            raise TrafficError("no segment: tokens and states differ in number")
        if not 0 <= prompt_rows <= len(tokens):
            raise TrafficError("no segment: its prompt is longer than it")
        return cls(tenant, request, target, prompt_rows, tokens, hidden)


def digest_of(name: str) -> str:
    """Return a short digest of a tenant, a request or a model."""
    return hashlib.sha256(name.encode()).hexdigest()[:_DIGITS]
