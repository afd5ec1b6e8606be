"""The draft head in the model worker: loaded beside the target, run on its hidden states.

A head that looks back also has a memory; it records each step, and prompts (`note_prefill`).
"""

import hashlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import torch
from vllm.distributed import tensor_model_parallel_gather
from vllm.model_executor.models.interfaces import supports_multimodal

from engine.errors import HeadError
from engine.heads import (
    DraftHead,
    Guess,
    HeadConfig,
    HeadMemory,
    SharedTables,
    TargetFacts,
    load_head,
)

_WARM_UP = "warm-up"
"""A request that occurs before the first real one only."""


def find_tables(model: Any, vocabulary: int) -> SharedTables:
    """Return the tables of a target that has one rank, for whatever head comes; copies nothing.

    Args:
        model: The target, as vLLM loaded it.
        vocabulary: Size of the target's vocabulary; rows beyond it are padding.
    """
    language = model.get_language_model() if supports_multimodal(model) else model
    embedding = getattr(getattr(language, "model", None), "embed_tokens", None)
    output = getattr(language, "lm_head", None)
    weights = (getattr(layer, "weight", None) for layer in (embedding, output))
    tables = [None if weight is None else weight.data[:vocabulary] for weight in weights]
    return SharedTables(*tables)


def gather_tables(model: Any, config: HeadConfig, vocabulary: int) -> SharedTables:
    """Collect the tables of the target that a head shares, on the first rank.

    With tensor parallelism each rank holds a part, so all ranks must call this.

    Args:
        model: The target, as vLLM loaded it.
        config: The head's.
        vocabulary: Size of the target's vocabulary; rows beyond it are padding.

    Returns:
        The tables that the head shares, on the first rank; no tables on the others.

    Raises:
        HeadError: The target keeps its tables elsewhere.
    """
    language = model.get_language_model() if supports_multimodal(model) else model

    def gather(is_shared: bool, find: Callable[[Any], Any]) -> torch.Tensor | None:
        if not is_shared:
            return None
        try:
            part = find(language).weight.data
        except AttributeError as exc:
            raise HeadError(f"draft heads do not support this target: {exc}") from exc
        whole = tensor_model_parallel_gather(part, dst=0, dim=0)
        return None if whole is None else whole[:vocabulary]

    return SharedTables(
        gather(config.share_embedding, lambda target: target.model.embed_tokens),
        gather(config.share_output, lambda target: target.lm_head),
    )


def load_for_target(
    folder: Path, tables: SharedTables, model_config: Any, *, device: Any
) -> DraftHead:
    """Load a head that shares the target's tables.

    On a CPU the head always computes in bfloat16, the dtype in which it is stored: its int8 weights
    for few rows and its C++ core require that.

    Raises:
        HeadError: The folder holds no head, or one for another target.
    """
    target = TargetFacts(
        hidden_size=model_config.get_hidden_size(),
        vocab_size=model_config.get_vocab_size(),
        tokenizer_sha256=tokenizer_hash(model_config.tokenizer),
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


def warm_up(head: DraftHead, most: int, *, rows: int, memory: HeadMemory | None) -> None:
    """Capture the head's graphs and run it once, so that no pass in service is slow for being new.

    Args:
        head: The head.
        most: Number of tokens that a pass drafts.
        rows: Most sequences of a pass.
        memory: Memory of a head with a window, with a free slot.
    """
    head.capture(most, rows=rows, tables=None if memory is None else memory.tables)
    weights = head.weights
    states = torch.zeros(1, head.config.hidden_size, dtype=weights.dtype, device=weights.device)
    for _ in range(2):  # from the second step on there is an entry to write
        HeadRun(head, most, StepStates(states, None), [_WARM_UP], [[0]], memory=memory)([0])
    if memory is not None:
        memory.forget([_WARM_UP])


class StepStates:
    """The target's last hidden states of one step, at the positions that were sampled.

    Attributes:
        hidden: The states.
        first: Index in `hidden` of each sequence's first state; None if each sequence has one.

    Args:
        hidden: Shape (positions, hidden_size); a sequence with k draft tokens has k + 1 consecutive
            states. Must not change afterwards.
        drafted: Number of verified draft tokens of each sequence; None if there were none.
    """

    def __init__(self, hidden: torch.Tensor, drafted: Sequence[int] | None) -> None:
        self.hidden = hidden
        self.first = None if drafted is None else [0, *accumulate(n + 1 for n in drafted)]

    def last(
        self, sequences: Sequence[int], sampled: Sequence[Sequence[int]]
    ) -> tuple[torch.Tensor, Sequence[int]]:
        """Return all states, and for some sequences the index of the state of the last token.

        Args:
            sequences: Indices of sequences in the step.
            sampled: New tokens of every sequence in the step.
        """
        if self.first is None:
            return self.hidden, sequences
        return self.hidden, [self.first[at] + len(sampled[at]) - 1 for at in sequences]

    def of(self, sequences: Sequence[int]) -> "StepStates":
        """Return the states of some sequences only, in this order; copies nothing.

        Args:
            sequences: Indices of sequences in the step.
        """
        found = StepStates(self.hidden, None)
        found.first = (
            list(sequences) if self.first is None else [self.first[at] for at in sequences]
        )
        return found


@dataclass(slots=True)
class HeadRun:
    """A pass of the head that runs when the drafter calls it (`engine.drafting.HeadPass`).

    Attributes:
        head: The head.
        most: Number of tokens to draft.
        states: Hidden states of the step that has just been sampled.
        requests: The requests of that step.
        sampled: The new tokens of each request.
        memory: Memory of a head with a window; it records the step whether the head runs or not.
        sequences: Number of sequences that the head ran for.
        seconds: Duration of the pass; 0 if the head did not run.
        cpu_seconds: CPU time of this thread during the pass.
    """

    head: DraftHead
    most: int
    states: StepStates
    requests: Sequence[str]
    sampled: Sequence[Sequence[int]]
    memory: HeadMemory | None = field(kw_only=True)
    sequences: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)
    cpu_seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        if self.memory is not None:
            states = self.states
            self.memory.note(self.requests, self.sampled, states.hidden, states.first)

    def __call__(self, rows: Sequence[int]) -> list[Guess]:
        """Return, for each of these sequences, the drafted tokens and their probabilities."""
        began, began_cpu = time.perf_counter(), time.thread_time()
        newest = [self.sampled[row][-1] for row in rows]
        view = None
        if self.memory is not None:
            view = self.memory.view([self.requests[row] for row in rows])
        states, positions = self.states.last(rows, self.sampled)
        guesses: list[Guess] = self.head.guess(states, positions, newest, self.most, view)
        self.sequences = len(rows)
        self.seconds = time.perf_counter() - began
        self.cpu_seconds = time.thread_time() - began_cpu
        return guesses


@dataclass(frozen=True, slots=True)
class StepPositions:
    """Which text positions a step has computed; all sequences are in the batch's order.

    Attributes:
        requests: Requests of the step.
        computed: Positions of each that the KV cache held before the step.
        scheduled: Positions of each that the step computed.
        known: Tokens of each that were known before the step sampled.
        tokens: Returns the tokens of the request at an index, from one position to before another.
    """

    requests: Sequence[str]
    computed: Sequence[int]
    scheduled: Sequence[int]
    known: Sequence[int]
    tokens: Callable[[int, int, int], list[int]]


class PromptRecord(Protocol):
    """What records prompt positions: a head's memory, or `engine.worker.collection.Recorder`."""

    reach: int

    @property
    def requests(self) -> Collection[str]:
        """The requests that it has positions of."""

    def ignore(self, request: str) -> None:
        """Record nothing of a request."""

    def note(
        self,
        requests: Sequence[str],
        sampled: Sequence[Sequence[int]],
        hidden: torch.Tensor,
        first: Sequence[int],
        /,
    ) -> None:
        """Record positions, as `HeadMemory.note`."""


def note_prefill(
    memory: PromptRecord,
    hidden: torch.Tensor,
    step: StepPositions,
    *,
    wants: Callable[[str], bool],
    vocabulary: int,
    reused: bool,
) -> None:
    """Add a step's prompt positions to the memory of a head with a window, or to another record.

    These are hidden states whose next token was already known: prompts, and the earlier output of a
    preempted request that is computed again. For positions found in the prefix cache this process
    has no states, so the window starts after them.

    Args:
        memory: Must not have been told of the step's sampled tokens yet.
        hidden: States of all positions of the step, request by request, shape (at least positions,
            hidden_size).
        step: The positions.
        wants: Tells whether a request may ever draft with the head; called for unknown requests.
        vocabulary: Vocabulary size; placeholder ids of images or audio may be outside of it.
        reused: Whether a later step overwrites `hidden`, as with CUDA graphs; if so, the states
            are copied.
    """
    requests: list[str] = []
    tokens: list[list[int]] = []
    first: list[int] = []
    begin = 0
    remembered = memory.requests
    for index, (request, computed, scheduled, known) in enumerate(
        zip(step.requests, step.computed, step.scheduled, step.known, strict=True)
    ):
        offset = begin
        begin += scheduled
        if request not in remembered and not wants(request):
            memory.ignore(request)
            continue
        if computed >= known - 1:  # most requests: they only decode
            continue
        since = max(computed, known - memory.reach)
        until = min(computed + scheduled, known - 1)
        if since >= until:
            continue
        following = step.tokens(index, since + 1, until + 1)
        if min(following) < 0 or max(following) >= vocabulary:
            continue
        requests.append(request)
        tokens.append(following)
        first.append(offset + since - computed)
    if not requests:
        return
    if reused:
        lengths = list(map(len, tokens))
        hidden = torch.cat([hidden[at : at + n] for at, n in zip(first, lengths, strict=True)])
        first = list(accumulate(lengths, initial=0))
    memory.note(requests, tokens, hidden, first)


def tokenizer_hash(folder: str) -> str | None:
    """Return the SHA-256 of a model folder's tokenizer.json; None if there is no such file."""
    file = Path(folder) / "tokenizer.json"
    return hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else None
