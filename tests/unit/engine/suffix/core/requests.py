"""What the tests of the index say again and again: whole requests, and what one is offered."""

from engine.suffix import SuffixIndex

MIB = 1 << 20
BLOCK = 1 << 14
SONG = list(range(1000, 1040))


def answer(index: SuffixIndex, tenant: str, tokens: list[int], *, keep: bool = True) -> None:
    """A whole request."""
    index.start("whole", tenant, [1])
    index.extend("whole", tokens)
    index.finish("whole", keep=keep)


def continued(index: SuffixIndex, tenant: str, tokens: list[int], most: int = 8) -> list[int]:
    """What a new request of that tenant is offered after these tokens."""
    index.start("probe", tenant, [2])
    index.extend("probe", tokens)
    draft = index.propose("probe", most, min_survival=0.0)
    index.finish("probe", keep=False)
    return draft.tokens


def grafted(index: SuffixIndex, tokens: list[int], most: int = 8) -> list[int]:
    """What request "one" is offered behind tokens that another drafter proposes."""
    return index.propose_after("one", tokens, 0.5, most, min_survival=0.0).tokens


def own_words(tenant: int, size: int) -> list[int]:
    """Tokens that nobody else writes."""
    return [1_000_000 * tenant + i for i in range(size)]
