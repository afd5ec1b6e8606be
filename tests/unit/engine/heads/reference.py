"""Slow reference implementations of all kinds of heads, written from the formulas.

They compute one row at a time in float64, from the tensors of a checkpoint in its published layout
(our own for the gated head; formulas in adr/0015).
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from engine.heads import DraftHead

Weights = Mapping[str, Tensor]


def norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    x = x / math.sqrt(float((x * x).mean()) + 1e-6)
    return x if weight is None or bias is None else x * weight + bias


def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


class Reference:
    """Scores one row with teacher forcing."""

    def __init__(self, weights: Weights, *, positions: int, tied: bool, scaled: bool) -> None:
        self.weights = {
            name.removeprefix("speculator."): tensor.double() for name, tensor in weights.items()
        }
        self.positions = positions
        self.tied = tied
        self.scaled = scaled

    def logits(self, hidden: Tensor, tokens: list[int]) -> list[Tensor]:
        """Return the logits after each token."""
        state = hidden.double()
        if self.scaled:
            state = norm(state) / math.sqrt(2)
        memory = None
        scored = []
        for position, token in enumerate(tokens):
            state, memory = self.step(position, state, memory, token)
            scored.append(self.score(position, state))
        return scored

    def step(
        self, position: int, state: Tensor, memory: Tensor | None, token: int
    ) -> tuple[Tensor, Tensor | None]:
        raise NotImplementedError

    def score(self, position: int, state: Tensor) -> Tensor:
        return self.own("head.{}.weight", position) @ state

    def own(self, pattern: str, position: int) -> Tensor:
        return self.weights[pattern.format(0 if self.tied else position)]

    def projection(self, pattern: str, position: int) -> Tensor:
        return self.weights[pattern.format(min(position, 1) if self.tied else position)]

    def scale(self, width: int) -> float:
        state_w: float = 0.5 ** (0.5 / self.positions)
        emb_w = math.sqrt((1 - state_w**2) * width / 2)
        return emb_w / state_w


class MlpReference(Reference):
    """IBM's accelerators and Arctic's MLP."""

    def step(
        self, position: int, state: Tensor, memory: Tensor | None, token: int
    ) -> tuple[Tensor, Tensor | None]:
        projected = self.projection("proj.{}.weight", position) @ state
        embedded = self.own("emb.{}.weight", position)[token]
        total = projected + self.scale(len(projected)) * embedded
        weight, bias = self.own("ln.{}.weight", position), self.own("ln.{}.bias", position)
        return gelu(norm(total, weight, bias)), None


class SumRnnReference(Reference):
    """Arctic's sum_rnn: embeddings, projections and norms are sequences of modules."""

    def step(
        self, position: int, state: Tensor, memory: Tensor | None, token: int
    ) -> tuple[Tensor, Tensor | None]:
        projected = self.sequence("proj.{}", position, state, start=0)
        embedded = self.sequence(
            "emb.{}", position, self.own("emb.{}.0.weight", position)[token], start=1
        )
        total = projected + self.scale(len(projected)) * embedded
        return gelu(self.sequence("ln.{}", position, total, start=0)), None

    def sequence(self, pattern: str, position: int, x: Tensor, *, start: int) -> Tensor:
        """Run modules by number: matrices are linear, pairs of vectors norms, gaps GELU."""
        at = min(position, 1 if pattern.startswith("proj") else 0) if self.tied else position
        prefix = f"{pattern.format(at)}."
        last = max(
            int(name.removeprefix(prefix).split(".")[0])
            for name in self.weights
            if name.startswith(prefix)
        )
        for number in range(start, last + 1):
            weight = self.weights.get(f"{prefix}{number}.weight")
            if weight is None:
                x = gelu(x)
            elif weight.ndim == 1:
                x = norm(x, weight, self.weights[f"{prefix}{number}.bias"])
            else:
                x = weight @ x
        return x


class LstmReference(Reference):
    """Arctic's sum_lstm."""

    def step(
        self, position: int, state: Tensor, memory: Tensor | None, token: int
    ) -> tuple[Tensor, Tensor | None]:
        forget, enter, leave = (
            sigmoid(self.gate(gate, position, state, token))
            for gate in ("forget", "input", "output")
        )
        candidate = gelu(
            norm(
                self.gate("cell", position, state, token),
                self.weights["cell_ln.0.weight"],
                self.weights["cell_ln.0.bias"],
            )
        )
        before = torch.zeros_like(candidate) if memory is None else memory
        memory = forget * before + enter * candidate
        normed = norm(memory, self.weights["state_ln.0.weight"], self.weights["state_ln.0.bias"])
        return leave * gelu(normed), memory

    def gate(self, gate: str, position: int, state: Tensor, token: int) -> Tensor:
        projected = self.weights[f"{gate}_proj.{min(position, 1)}.weight"] @ state
        table = self.weights.get(f"{gate}_emb.0.weight", self.weights["forget_emb.0.weight"])
        return projected + self.scale(len(projected)) * table[token]


class GatedReference(Reference):
    """Our gated head, with own tables or the target's, "embedding" and "output"."""

    def step(
        self, position: int, state: Tensor, memory: Tensor | None, token: int
    ) -> tuple[Tensor, Tensor | None]:
        projected = self.projection("projections.{}.linear.weight", position) @ state
        embedding = self.own("embeddings.{}.weight", position)
        table = self.weights.get("embedding")
        embedded = embedding[token] if table is None else embedding @ table[token]
        return self.cell(position, projected + self.scale(len(projected)) * embedded), None

    def cell(self, position: int, total: Tensor) -> Tensor:
        weight, bias = (self.own("cells.{}.norm." + part, position) for part in ("weight", "bias"))
        both = self.own("cells.{}.enter.weight", position) @ norm(total, weight, bias)
        gate, value = both[: len(both) // 2], both[len(both) // 2 :]
        inside = gate * sigmoid(gate) * value
        total = total + self.own("cells.{}.leave.weight", position) @ inside
        weight, bias = (
            self.own("cells.{}.state_norm." + part, position) for part in ("weight", "bias")
        )
        return norm(total, weight, bias)

    def score(self, position: int, state: Tensor) -> Tensor:
        if any(name.startswith("outputs.") for name in self.weights):
            state = self.own("outputs.{}.weight", position) @ state
        if "output" not in self.weights:
            return state
        return self.weights["output"][self.weights["vocabulary.ids"].long()] @ state


def check_logits(head: DraftHead, reference: Reference) -> None:
    """Compare a head's logits with the reference, with teacher forcing."""
    hidden, tokens = torch.randn(2, head.config.hidden_size), [[3, 60, 8], [0, 89, 89]]

    found = head(hidden, torch.tensor(tokens))

    for row in range(2):
        expected = reference.logits(hidden[row], tokens[row])
        for position, logits in enumerate(found):
            torch.testing.assert_close(
                logits[row].double(), expected[position], atol=1e-4, rtol=1e-4
            )
