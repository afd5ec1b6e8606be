"""What a run amounts to: by kind, and in all. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gateway.verify.ask import Asked
from gateway.verify.compare import Outcome, Result
from gateway.verify.prompts import Prompt

ALL = "all"
_COLUMNS = ("kind", "prompts", "identical", "near-ties", "defects", "skipped", "first difference")


@dataclass(frozen=True, slots=True)
class Compared:
    """A prompt with both answers.

    Attributes:
        prompt: What was asked.
        plain: The answer without drafts.
        drafted: The answer with drafts.
        result: Of their comparison.
    """

    prompt: Prompt
    plain: Asked
    drafted: Asked
    result: Result


@dataclass(frozen=True, slots=True)
class Summary:
    """Some comparisons.

    Attributes:
        kind: Of the prompts; `ALL` for all of them.
        prompts: How many there were.
        same, near_ties, defects, skipped: How many had which outcome.
        first_place: Least number of tokens before a difference; None without one.
        plain_speed, drafted_speed: Tokens per second of an answer; None if nothing was answered.
    """

    kind: str
    prompts: int
    same: int
    near_ties: int
    defects: int
    skipped: int
    first_place: int | None
    plain_speed: float | None
    drafted_speed: float | None

    @property
    def identical(self) -> float | None:
        """Share of identical answers, 0 to 1; None if nothing was answered."""
        answered = self.prompts - self.skipped
        return self.same / answered if answered else None

    @property
    def speedup(self) -> float | None:
        """Speed with drafts over the speed without."""
        if not self.plain_speed or not self.drafted_speed:
            return None
        return self.drafted_speed / self.plain_speed


def summarise(compared: Sequence[Compared]) -> list[Summary]:
    """Return a summary of each kind, in the order of the prompts, and one of all at the end."""
    kinds = dict.fromkeys(one.prompt.kind for one in compared)
    parts = [_of(kind, [one for one in compared if one.prompt.kind == kind]) for kind in kinds]
    return [*parts, _of(ALL, compared)]


def _of(kind: str, compared: Sequence[Compared]) -> Summary:
    outcomes = [one.result.outcome for one in compared]
    places = [one.result.place for one in compared if one.result.place is not None]
    answered = [one for one in compared if one.result.outcome is not Outcome.SKIPPED]
    return Summary(
        kind,
        len(compared),
        outcomes.count(Outcome.SAME),
        outcomes.count(Outcome.NEAR_TIE),
        outcomes.count(Outcome.DIFFERS),
        outcomes.count(Outcome.SKIPPED),
        min(places, default=None),
        _speed([one.plain for one in answered]),
        _speed([one.drafted for one in answered]),
    )


def _speed(answers: Sequence[Asked]) -> float | None:
    seconds = sum(answer.seconds for answer in answers)
    return sum(answer.completion_tokens for answer in answers) / seconds if seconds else None


def rows_of(summaries: Sequence[Summary]) -> Iterator[tuple[str, ...]]:
    """Yield the table: its head, then a row for each summary."""
    yield _COLUMNS
    for one in summaries:
        yield (
            one.kind,
            str(one.prompts),
            "-" if one.identical is None else f"{one.identical:.1%}",
            str(one.near_ties),
            str(one.defects),
            str(one.skipped),
            "-" if one.first_place is None else f"token {one.first_place + 1}",
        )


def table_of(summaries: Sequence[Summary]) -> str:
    """Return the table for a terminal."""
    rows = list(rows_of(summaries))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines) + "\n"


def sentences_of(compared: Sequence[Compared], total: Summary) -> Iterator[str]:
    """Yield what the table does not say: speeds, and each difference."""
    if total.plain_speed is not None and total.drafted_speed is not None:
        yield (
            f"{total.plain_speed:.1f} tokens/s without drafts, {total.drafted_speed:.1f} with: "
            f"{total.speedup or 0.0:.2f} times."
        )
    for one in compared:
        result = one.result
        if result.outcome in (Outcome.NEAR_TIE, Outcome.DIFFERS):
            word = "near-tie" if result.outcome is Outcome.NEAR_TIE else "defect"
            place = "" if result.place is None else f", token {result.place + 1}"
            margin = "" if result.margin is None else f", margin {result.margin:.3g}"
            why = f": {result.why}" if result.why else ""
            yield f"{word}: {one.prompt.kind}, line {one.prompt.number}{place}{margin}{why}"
