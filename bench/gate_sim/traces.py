"""Acceptance from recorded conversations: what a search for repeats would have drafted.

Tokens are words, white space and single signs. At each position of an answer, the longest of the
latest repeats of up to eight tokens drafts what followed it before; recorded is how much of that is
correct. The survival of a draft is taken to be that of all drafts with the same match length.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.gate_sim.processes import CHAT, draw_chances, draw_survival, misstate
from bench.suffix.replay import accepted_of
from engine.simulation.arrays import Floats, Ints
from engine.simulation.texts import DEPTH, Offers, Texts, Truth, runs_of
from loadtest.conversations import DataError, read_file

_PIECES = re.compile(r"\w+|\s+|[^\w\s]")
_LEAST_TOKENS, _MOST_TOKENS = 8, 400
_HISTORY = 6_000
_ORDERS = (8, 4, 2)
_FILE_TOKENS = 8_000
_PROMPT = 100


@dataclass(frozen=True, slots=True)
class Trace:
    """A recorded answer; (tokens,) each.

    Attributes:
        offered: Tokens that the repeat drafts at each position.
        right: How many of the first of them are correct.
        order: Index into the lengths of repeats that were looked for; 0 where none was found.
        history: Tokens before the answer.
    """

    offered: Ints
    right: Ints
    order: Ints
    history: int


def read_traces(folder: Path) -> list[Trace]:
    """Read the recordings of a folder, some of each file.

    Raises:
        DataError: There are none, or a line is not as described in `loadtest.conversations`.
    """
    traces: list[Trace] = []
    for path in sorted(folder.glob("*.jsonl")):
        tokens = 0
        for history, answer in _exchanges(path):
            if tokens >= _FILE_TOKENS:
                break
            if len(answer) >= _LEAST_TOKENS:
                traces.append(trace_of(history[-_HISTORY:], answer[:_MOST_TOKENS]))
                tokens += len(traces[-1].right)
    if not traces:
        raise DataError(f"{folder}: no recorded answers")
    return traces


def trace_of(history: Sequence[str], answer: Sequence[str]) -> Trace:
    """Look for repeats at each position of an answer, in all that comes before."""
    text = [*history, *answer]
    seen: list[dict[tuple[str, ...], int]] = [{} for _ in _ORDERS]
    offered, right, order = (np.zeros(len(answer), dtype=np.int64) for _ in range(3))
    for at in range(1, len(text)):
        position = at - len(history)
        keys = [tuple(text[at - n : at]) for n in _ORDERS]
        if position >= 0:
            for rank, key in enumerate(keys):
                found = seen[rank].get(key)
                if at >= _ORDERS[rank] and found is not None:
                    most = min(DEPTH, at - found)
                    offered[position], order[position] = most, rank + 1
                    right[position] = accepted_of(text[found : found + most], text[at : at + most])
                    break
        for rank, key in enumerate(keys):
            seen[rank][key] = at
    return Trace(offered, right, order, len(history))


def texts_of(traces: Sequence[Trace], seed: int) -> Texts:
    """Put the traces into an order that the seed decides, with a head whose outcomes are drawn.

    The head is that of `CHAT`: recordings do not say what a head would have proposed.
    """
    rng = np.random.default_rng([seed, 3])
    traces = [traces[i] for i in rng.permutation(len(traces))]
    lengths = np.array([len(trace.right) for trace in traces])
    offered = np.concatenate([trace.offered for trace in traces])
    right = np.concatenate([trace.right for trace in traces])
    order = np.concatenate([trace.order for trace in traces])
    within = np.arange(DEPTH) < offered[:, None]
    rates = rates_by_order(order, offered, right)[order]
    head = np.broadcast_to(np.array(CHAT.write.head), (len(right), len(CHAT.write.head)))
    own = np.repeat(rng.normal(0.0, CHAT.unlike, len(traces)), lengths)[:, None]
    chances = draw_chances(head, own, rng)
    hits = rng.random(chances.shape) < chances
    return Texts(
        Offers(
            offered,
            np.cumprod(
                misstate(rates, CHAT.suffix_bias, CHAT.misjudged, rng), axis=1, dtype=np.float64
            )
            * within,
            misstate(chances, CHAT.head_bias, CHAT.misjudged, rng),
        ),
        Truth(
            suffix=np.cumprod(rates, axis=1, dtype=np.float64) * within,
            head=np.cumprod(chances, axis=1, dtype=np.float64),
            head_before=draw_survival(head, own[:, 0], rng),
            suffix_right=right,
            head_right=runs_of(hits.astype(np.int64)),
        ),
        lengths,
        # As in a session: all but the latest message is cached.
        np.full(len(traces), _PROMPT),
        np.array([max(0, trace.history - _PROMPT) for trace in traces]),
    )


def rates_by_order(order: Ints, offered: Ints, right: Ints) -> Floats:
    """How often each token was correct, given that all before it were; (orders + 1, DEPTH)."""
    rates = np.full((len(_ORDERS) + 1, DEPTH), 0.5)
    for rank in range(1, len(rates)):
        of = order == rank
        for depth in range(DEPTH):
            reached = of & (offered > depth) & (right >= depth)
            hits = int((reached & (right > depth)).sum())
            # Half an observation of each kind, so that no chance is 0 or 1.
            rates[rank, depth] = (hits + 0.5) / (int(reached.sum()) + 1.0)
    return rates


def _exchanges(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield (all that was said before, answer), in tokens."""
    for record in read_file(path):
        for messages, answer in record.exchanges():
            said = [piece for message in messages for piece in _PIECES.findall(message["content"])]
            yield said, _PIECES.findall(answer)
