"""A run with every outcome."""

from gateway.verify.ask import Asked
from gateway.verify.compare import Outcome, Result
from gateway.verify.prompts import Prompt
from gateway.verify.summary import Compared


def compared(number: int, kind: str, result: Result, *, seconds: float = 1.0) -> Compared:
    plain = Asked(completion_tokens=10, seconds=2.0)
    drafted = Asked(completion_tokens=10, seconds=seconds)
    return Compared(Prompt(number, kind, {}), plain, drafted, result)


SAME = Result(Outcome.SAME)
RUN = [
    compared(1, "chat", SAME),
    compared(2, "chat", Result(Outcome.NEAR_TIE, 7, 0.125)),
    compared(3, "tool", SAME, seconds=0.25),
    compared(4, "tool", Result(Outcome.DIFFERS, 3, 2.0, "a token that is less likely")),
    compared(5, "grammar", Result(Outcome.SKIPPED, why="no grammars")),
]
