"""The draft head in the model worker: loaded beside the target, run on the states it left."""

import hashlib
import time
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from vllm.distributed import tensor_model_parallel_all_gather
from vllm.distributed.parallel_state import get_pp_group
from vllm.model_executor.models.interfaces import supports_multimodal

from engine.errors import HeadError
from engine.heads import DraftHead, Guess, HeadMemory, SharedTables, TargetFacts, load_head


def gather_tables(model: Any, vocabulary: int) -> SharedTables:
    """Collect the tables that a head may share of the target.

    With tensor parallelism each rank holds a part of them, so all ranks call this.

    Raises:
        HeadError: The target is spread over pipeline stages, or keeps its tables elsewhere.
    """
    if get_pp_group().world_size > 1:
        raise HeadError("a draft head needs pipeline_parallel_size 1")
    language = model.get_language_model() if supports_multimodal(model) else model
    try:
        parts = language.model.embed_tokens.weight.data, language.lm_head.weight.data
    except AttributeError as exc:
        raise HeadError(f"no draft head can share the tables of this target: {exc}") from exc
    return SharedTables(
        *(tensor_model_parallel_all_gather(part, dim=0)[:vocabulary] for part in parts)
    )


def load_for_target(
    folder: Path, tables: SharedTables, model_config: Any, *, device: Any
) -> DraftHead:
    """Load a head and let it share the target's tables.

    On a CPU it drafts in bfloat16, in which it is stored, whatever the target computes in: few rows
    are multiplied with int8 weights there, and that is what the core in C++ knows.

    Raises:
        HeadError: The folder holds no head, or not one for this target.
    """
    target = TargetFacts(
        hidden_size=model_config.get_hidden_size(),
        vocab_size=model_config.get_vocab_size(),
        tokenizer_sha256=_tokenizer_hash(model_config.tokenizer),
        dtype=model_config.dtype,
        device=device,
    )
    return load_head(
        folder,
        target,
        embedding=tables.embedding,
        output=tables.output,
        dtype=torch.bfloat16 if device.type == "cpu" else None,
    )


class StepStates:
    """The target's last hidden states of one step, of which each row has those that were sampled.

    Attributes:
        hidden: As given.
        first: Where in `hidden` a row's states begin; None where each row has one.

    Args:
        hidden: Shape (positions, hidden); of a row with k draft tokens k + 1 in a row. Nobody
            changes them afterwards.
        drafted: Draft tokens that were verified, by row; None where there were none.
    """

    def __init__(self, hidden: torch.Tensor, drafted: Sequence[int] | None) -> None:
        self.hidden = hidden
        self.first = None if drafted is None else [0, *accumulate(n + 1 for n in drafted)]

    def last(
        self, rows: Sequence[int], sampled: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, Sequence[int]]:
        """Return all states, and the places of those that some rows' last tokens come from."""
        if self.first is None:
            return self.hidden, rows
        return self.hidden, [self.first[row] + len(sampled[row]) - 1 for row in rows]


class HeadRun:
    """One pass of the head, when the drafter asks for it (`engine.drafting.HeadPass`).

    Args:
        head: The head.
        most: Tokens to draft.
        states: Of the step that has just been sampled.
        requests: Its rows.
        sampled: Their new tokens.
        memory: Of a head with a window; told of the new rows whether the head runs or not.

    Attributes:
        rows: For how many it ran.
        seconds: What it took, 0 if it did not run.
        cpu_seconds: Of that, this thread's time on the CPU.
    """

    def __init__(
        self,
        head: DraftHead,
        most: int,
        states: StepStates,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        *,
        memory: HeadMemory | None,
    ) -> None:
        self._head = head
        self._most = most
        self._states = states
        self._requests = requests
        self._sampled = sampled
        self._memory = memory
        self.rows = 0
        self.seconds = self.cpu_seconds = 0.0
        if memory is not None:
            memory.note(requests, sampled, states.hidden, states.first)

    def __call__(self, rows: Sequence[int]) -> list[Guess]:
        """Return for each row the head's tokens and its probability of each."""
        began, began_cpu = time.perf_counter(), time.thread_time()
        newest = [self._sampled[row][-1] for row in rows]
        view = None
        if self._memory is not None:
            view = self._memory.view([self._requests[row] for row in rows])
        states, places = self._states.last(rows, self._sampled)
        guesses: list[Guess] = self._head.guess(states, places, newest, self._most, view)
        self.rows = len(rows)
        self.seconds = time.perf_counter() - began
        self.cpu_seconds = time.thread_time() - began_cpu
        return guesses


def _tokenizer_hash(folder: str) -> str | None:
    file = Path(folder) / "tokenizer.json"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
