"""The drafting loop: a head continues from its own tokens without waiting for the device."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import torch
from torch import Tensor

from engine.heads.attention import Context, Recorder, record
from engine.heads.cells import Norm, apply_norm
from engine.heads.stage import Stage, add_up, advance
from engine.heads.transfer import Guess, pack, unpack, upload
from engine.heads.view import Tables, View
from engine.heads.vocabulary import Vocabulary
from engine.heads.weights import at


class Entry(NamedTuple):
    """Where an entry comes from and where it goes.

    Attributes:
        step: Index of the step, in the order in which steps were noted.
        state: Index of its state among the states of that step.
        token: The token that was sampled from that state.
        key, value: Where they are written: indices into the flattened tables of all requests.
    """

    step: int
    state: int
    token: int
    key: int
    value: int


class Update(NamedTuple):
    """Entries to compute and write to the tables.

    Attributes:
        states: States of each step, (any, hidden_size).
        entries: At least one, by rising step.
        moves: Keys that are copied first, as (destination, source).
        tables: Where to write; indices count through the slots of all requests.
    """

    states: Sequence[Tensor]
    entries: Sequence[Entry]
    moves: Sequence[tuple[int, int]]
    tables: Tables


class Drafting(ABC):
    """A head with folded weights, ready to draft: in torch, or in C++ for few rows."""

    @abstractmethod
    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """Return target ids and probabilities, (m, n) each; see `DraftHead.propose`."""

    @abstractmethod
    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, as `DraftHead.entries` does, with folded weights."""

    def capture(  # noqa: B027  # most have no graphs
        self, n: int, *, rows: int, tables: Tables | None
    ) -> None:
        """Capture graphs, if there are any; see `DraftHead.capture`."""

    def guess(
        self, states: Tensor, rows: Sequence[int], tokens: Sequence[int], n: int, view: View | None
    ) -> list[Guess]:
        """Draft for some sequences of a step; see `DraftHead.guess`."""
        at, newest = upload(states.device, rows, tokens)
        context = None if view is None else view.context()
        return unpack(pack(*self.draft(states.index_select(0, at), newest, n, context)))

    def write(self, update: Update) -> None:
        """Compute entries and write them; see `DraftHead.write`."""
        states, entries, moves, tables = update
        _, *columns = zip(*entries, strict=True)
        at, tokens, key_slots, value_slots, to, since = upload(
            tables.keys.device, *columns, [to for to, _ in moves], [since for _, since in moves]
        )
        steps = [(step, len(list(some))) for step, some in groupby(entries, attrgetter("step"))]
        parts = at.split([count for _, count in steps])
        hidden = [
            states[step].index_select(0, part) for (step, _), part in zip(steps, parts, strict=True)
        ]
        made_keys, made_values = self.record(
            torch.cat(hidden) if len(hidden) > 1 else hidden[0], tokens
        )
        all_keys, all_values, all_tokens = (part.flatten(0, 1) for part in tables)
        if moves:
            all_keys.index_copy_(0, to, all_keys.index_select(0, since))
        # For few rows `index_put_` takes ten times as long.
        all_keys.index_copy_(0, key_slots, made_keys.to(all_keys.dtype))
        all_values.index_copy_(0, value_slots, made_values.to(all_values.dtype))
        all_tokens.index_copy_(0, value_slots, tokens)


class DraftingLoop(Drafting):
    """Drafts greedily.

    Args:
        stages: Stages of the first positions; later positions use the last. The first stage takes
            target ids, the others draft ids, or target ids if there is an extension.
        vocabulary: The head's vocabulary.
        dtype: Dtype of the folded weights.
        input_norm: Norm of the target's state, if the head scales it.
        recorder: For a head with a window.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        *,
        vocabulary: Vocabulary,
        dtype: torch.dtype,
        input_norm: Norm | None,
        recorder: Recorder | None,
    ) -> None:
        self._stages = tuple(stages)
        self._vocabulary = vocabulary
        self._dtype = dtype
        self._input_norm = input_norm
        self._recorder = recorder

    def draft(
        self, hidden: Tensor, tokens: Tensor, n: int, context: Context | None
    ) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        state = self._enter(hidden)
        memory, drafted, confidences = None, [], []
        more = self._more(context)
        for position in range(n):
            stage = at(self._stages, position)
            state, memory = advance(stage, state, memory, tokens, context)
            logits = stage.score(state)
            if more is not None and stage.extension is not None:
                logits = torch.cat([logits, stage.extension.score(state, more)], 1)
            probabilities = torch.softmax(logits, -1, dtype=torch.float32)
            confidence, tokens = probabilities.max(-1)
            if stage.extension is not None:  # which is why the next stage takes target ids
                tokens = self._vocabulary.target_ids(tokens, more)
            drafted.append(tokens)
            confidences.append(confidence)
        found = torch.stack(drafted, 1)
        if self._stages[0].extension is None:
            found = self._vocabulary.target_ids(found)
        return found, torch.stack(confidences, 1)

    def record(self, hidden: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """See `Drafting`."""
        assert self._recorder is not None
        return record(self._recorder, add_up(self._stages[0], self._enter(hidden), tokens))

    def _more(self, context: Context | None) -> Tensor | None:
        """Return what each row may draft beyond the vocabulary, (m, any); -1 for none."""
        if context is None or self._stages[0].extension is None:
            return None
        seen = context.seen_tokens()
        return None if seen is None else self._vocabulary.left_out(seen)

    def _enter(self, hidden: Tensor) -> Tensor:
        state = hidden.to(self._dtype)
        # `Matrix` needs memory of its own, so copy in either case.
        norm = self._input_norm
        return state.clone() if norm is None else apply_norm(state, norm)
