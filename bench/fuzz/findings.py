"""What a fuzzer found: counts by kind, and the first cases of each."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from loadtest.progress import say

Kind = Literal["own_5xx", "crash", "hang", "smuggled", "crossed", "wrong_answer", "wrong_ending"]
_SHOWN = 20
_SAID_CHARACTERS = 1_500


class Finding(NamedTuple):
    """One thing that must not happen.

    Attributes:
        case: Tag of the case, which reproduces it with the seed.
        what: What the judge saw.
    """

    kind: Kind
    case: str
    what: str


@dataclass(slots=True)
class Findings:
    """Everything that was found.

    Attributes:
        cases: Cases played.
        counts: Findings by kind.
        first: The first findings.
        by_status: How the cases ended: status of the first answer, or `closed`.
    """

    cases: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    first: list[Finding] = field(default_factory=list)
    by_status: Counter[str] = field(default_factory=Counter)

    def add(self, finding: Finding) -> None:
        """Count a finding, and show it if it is one of the first."""
        self.counts[finding.kind] += 1
        if self.counts[finding.kind] <= _SHOWN:
            self.first.append(finding)
            say(f"{finding.kind} in {finding.case}: {finding.what[:_SAID_CHARACTERS]}")

    def merge(self, other: "Findings") -> None:
        """Add what another fuzzer found."""
        self.cases += other.cases
        self.counts += other.counts
        self.first += other.first
        self.by_status += other.by_status
