"""`make bench-delay`: what the suffix index loses where it drafts a step early.

    python -m bench.suffix.delay [--quick] [--data DIR] [--config FILE]

With async scheduling a step may be launched before the tokens of the last one are known. Recorded
answers are decoded twice by the worker's own drafting: each step waits, or each is launched ahead.
Only counts are compared, so the figures do not depend on the machine. The last line on stdout is
one JSON object: for each data set, and over all, accepted tokens for each token of the answers,
waiting and ahead, and their ratio.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.command import add_data, new_parser, print_line
from bench.rounds import Json
from bench.suffix.corpus import CONFIG, load_corpus, tokenizer_of
from bench.suffix.datasets import Request
from bench.suffix.replay import accepted_of
from engine.drafting import Beginning, Control, Drafter, InFlight
from engine.policy import Gate
from engine.suffix import SuffixIndex
from loadtest.conversations import DataError
from loadtest.progress import say

_PRICE = 0.4
"""Survival at which tokens are drafted, as a gate has it with a few requests."""
_LONGEST = 32
_QUICK_TOKENS, _TOKENS = 10_000, 60_000


@dataclass(slots=True)
class Counts:
    """Sums over answers."""

    answer_tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.answer_tokens + other.answer_tokens,
            self.steps + other.steps,
            self.drafted + other.drafted,
            self.accepted + other.accepted,
        )

    def as_json(self) -> Json:
        """Accepted and drafted tokens for each token of the answers, and tokens a step."""
        tokens = max(1, self.answer_tokens)
        return {
            "accepted": self.accepted / tokens,
            "drafted": self.drafted / tokens,
            "tokens_a_step": tokens / max(1, self.steps),
        }


def decode(requests: Sequence[Request], *, ahead: bool) -> Counts:
    """Decode recorded answers one after another, with one index.

    Args:
        requests: In the order in which they were recorded.
        ahead: Whether each step is launched before the tokens of the last one are known.
    """
    drafter = Drafter(SuffixIndex(256 << 20), Gate(((1, 1.0),)), most=_LONGEST, fixed_price=_PRICE)
    total = Counts()
    for number, request in enumerate(requests):
        total += _decode(drafter, f"request {number}", request, ahead=ahead)
    return total


def _decode(drafter: Drafter, name: str, request: Request, *, ahead: bool) -> Counts:
    answer: list[int] = request.answer.tolist()
    begin = Beginning(request.prompt, Control(), len(answer))
    counts = Counts(answer_tokens=len(answer))
    # The first token comes with the prompt. What is in flight has a draft of no tokens then.
    known, sampled, verified = 0, answer[:1], 0
    in_flight: list[int] = []
    while sampled:
        known += len(sampled)
        counts.steps += 1
        draft = drafter.step(
            [name],
            [sampled],
            lambda _: begin,
            verified=[verified],
            in_flight=InFlight([len(in_flight)]) if ahead else None,
        ).tokens[0]
        verifying, in_flight = (in_flight, draft) if ahead else (draft, [])
        right = accepted_of(verifying, answer[known:])
        counts.drafted += len(verifying)
        counts.accepted += right
        sampled, verified = answer[known : known + right + 1], len(verifying)
    drafter.end([name], keep=True)
    return counts


def main() -> int:
    """Compare both and print one JSON line."""
    parser = new_parser("suffix.delay")
    add_data(parser)
    parser.add_argument("--config", type=Path, default=CONFIG)
    arguments = parser.parse_args()
    most = _QUICK_TOKENS if arguments.quick else _TOKENS
    return print_line(
        lambda: _run(arguments.data.resolve(), arguments.config, most), (DataError, OSError)
    )


def _run(data: Path, config: Path, most_tokens: int) -> Json:
    sets: Json = {}
    both = Counts(), Counts()
    for dataset in load_corpus(data, tokenizer_of(config), most_tokens=most_tokens):
        found = decode(dataset.requests, ahead=False), decode(dataset.requests, ahead=True)
        both = both[0] + found[0], both[1] + found[1]
        sets[dataset.name] = _compared(*found)
        say(f"{dataset.name}: {sets[dataset.name]}")
    return {"bench": "delay", **_compared(*both), "sets": sets}


def _compared(waiting: Counts, ahead: Counts) -> Json:
    return {
        "accepted_ratio": ahead.accepted / max(1, waiting.accepted),
        "waiting": waiting.as_json(),
        "ahead": ahead.as_json(),
    }


if __name__ == "__main__":
    sys.exit(main())
