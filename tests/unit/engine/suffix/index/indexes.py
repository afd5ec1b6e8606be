"""An index with some history, what can be observed of it, and wrongly typed values."""

from collections.abc import Callable
from typing import Any, cast

from engine.suffix import SuffixIndex
from tests.unit.engine.suffix.conversations import MIB

PHRASE = [5, 6, 7, 8, 9, 10, 11, 12]


Call = Callable[[SuffixIndex], object]


def build(*, temperature: float = 0.0) -> SuffixIndex:
    """Return an index with a kept answer, and a running request with a draft to be scored.

    Args:
        temperature: Of the running request.
    """
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("old", "acme", [1, 2, 3])
    index.extend("old", PHRASE * 4)
    index.finish("old", keep=True)
    index.start("now", "acme", [1, 2, *PHRASE, 3], temperature=temperature)
    index.extend("now", PHRASE[:3])
    index.propose("now", 4)
    return index


def portrait(index: SuffixIndex) -> list[object]:
    """What can be observed of it, including what it learns next."""
    seen: list[object] = [facts(index)]
    for token in PHRASE[3:]:
        draft = index.propose("now", 8)
        seen += [draft.tokens, draft.survival, draft.share, draft.predicted]
        index.extend("now", [token])
    return [*seen, facts(index)]


def facts(index: SuffixIndex) -> tuple[int, ...]:
    stats = index.stats()
    return (stats.tokens, stats.bytes, stats.tenants, stats.requests, stats.evicted_tokens)


def wrong(value: object) -> Any:
    """A value of a wrong type."""
    return cast(Any, value)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array
