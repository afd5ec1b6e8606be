"""Whole requests, what an index offers, and what can be seen of it."""

from engine.suffix import SuffixIndex

MIB = 1 << 20
BLOCK = 1 << 14
SONG = list(range(1000, 1040))


def answer(index: SuffixIndex, tenant: str, tokens: list[int], *, keep: bool = True) -> None:
    """A whole request with this answer."""
    index.start("whole", tenant, [1])
    index.extend("whole", tokens)
    index.finish("whole", keep=keep)


def continued(index: SuffixIndex, tenant: str, tokens: list[int], most: int = 8) -> list[int]:
    """What a new request of the tenant is offered after these tokens."""
    index.start("probe", tenant, [2])
    index.extend("probe", tokens)
    draft = index.propose("probe", most)
    index.finish("probe", keep=False)
    return draft.tokens


def grafted(index: SuffixIndex, tokens: list[int], most: int = 8) -> list[int]:
    """What request "one" is offered after tokens that another drafter proposed."""
    return index.propose_after("one", tokens, 0.5, most).tokens


def own_words(tenant: int, size: int) -> list[int]:
    """Tokens that nobody else writes."""
    return [1_000_000 * tenant + i for i in range(size)]
