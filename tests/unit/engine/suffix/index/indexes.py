"""An index with a past, what can be seen of it, and values that its types forbid."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from engine.suffix import SuffixIndex

MIB = 1 << 20
BLOCK = 1 << 14
PHRASE = [5, 6, 7, 8, 9, 10, 11, 12]


Call = Callable[[SuffixIndex], object]


def build(*, temperature: float = 0.0) -> SuffixIndex:
    """An index with a past: one answer kept, one request running with a draft to be judged.

    Args:
        temperature: Of the running request.
    """
    index = SuffixIndex(4 * MIB, salt=1)
    index.start("old", "acme", [1, 2, 3])
    index.extend("old", PHRASE * 4)
    index.finish("old", keep=True)
    index.start("now", "acme", [1, 2, *PHRASE, 3], temperature=temperature)
    index.extend("now", PHRASE[:3])
    index.propose("now", 4, min_survival=0.0)
    return index


def portrait(index: SuffixIndex) -> list[object]:
    """What can be seen of it, what it learns next included."""
    seen: list[object] = [facts(index)]
    for token in PHRASE[3:]:
        draft = index.propose("now", 8, min_survival=0.0)
        seen += [draft.tokens, draft.survival, draft.share, draft.predicted]
        index.extend("now", [token])
    return [*seen, facts(index)]


def facts(index: SuffixIndex) -> tuple[int, ...]:
    stats = index.stats()
    return (stats.tokens, stats.bytes, stats.tenants, stats.requests, stats.evicted_tokens)


def wrong(value: object) -> Any:
    """A value that the types forbid."""
    return cast(Any, value)


def rows(*most: int) -> Any:
    return np.array(most, np.int32)


def read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array
