"""Prompts with more or less repetition, made up from a seed; no two of one seed are the same."""

import random
from collections.abc import Callable, Sequence
from itertools import cycle, islice

_THINGS = (
    "lamp", "table", "window", "bridge", "garden", "basket", "ladder", "mirror",
    "kettle", "blanket", "button", "candle", "drawer", "engine", "feather", "guitar",
)  # fmt: skip
_COLOURS = (
    "red", "blue", "green", "white", "black", "yellow", "brown", "grey",
)  # fmt: skip
_NAMES = (
    "Anna", "Ben", "Clara", "David", "Emma", "Felix", "Greta", "Henry",
)  # fmt: skip
_VERBS = (
    "found", "lost", "painted", "carried", "repaired", "sold", "opened", "moved",
)  # fmt: skip


def make_prompts(count: int, *, seed: int) -> list[str]:
    """Return prompts of all kinds in turn."""
    source = random.Random(seed)
    made: dict[str, None] = {}
    kinds = cycle(_KINDS)
    while len(made) < count:
        made[next(kinds)(source)] = None
    return list(made)


def make_prose(count: int, *, seed: int) -> list[str]:
    """Return prompts in which hardly anything is said twice."""
    source = random.Random(seed)
    return [_prose(source) for _ in range(count)]


def make_long_prompt(*, seed: int, records: int) -> str:
    """Return a list of records, about 16 tokens each, in which each is like the others."""
    source = random.Random(seed)
    return "\n".join(f"{number}. {_record(source)}" for number in range(1, records + 1)) + "\n"


def _pick(source: random.Random, words: Sequence[str], count: int) -> list[str]:
    return source.sample(list(words), count)


def _record(source: random.Random) -> str:
    return (
        f"{source.choice(_NAMES)} {source.choice(_VERBS)} a {source.choice(_COLOURS)} "
        f"{source.choice(_THINGS)} for {source.randint(2, 99)} coins"
    )


def _listing(source: random.Random) -> str:
    return make_long_prompt(seed=source.randrange(1 << 30), records=5) + "6."


def _table(source: random.Random) -> str:
    names, things = _pick(source, _NAMES, 5), _pick(source, _THINGS, 5)
    rows = [
        f"{name},{thing},{source.choice(_COLOURS)},{source.randint(1, 9)}"
        for name, thing in zip(names, things, strict=True)
    ]
    head = "name,thing,colour,count"
    return "\n".join([head, *rows, "", head, *rows[:2]]) + "\n"


def _dialogue(source: random.Random) -> str:
    first, second = _pick(source, _NAMES, 2)
    lines = []
    for thing in _pick(source, _THINGS, 3):
        colour = source.choice(_COLOURS)
        lines.append(f"{first}: Where did you put the {colour} {thing}?")
        lines.append(f"{second}: I put the {colour} {thing} behind the door.")
    return "\n".join(lines) + f"\n{first}: Where did you put the {source.choice(_COLOURS)}"


def _code_edit(source: random.Random) -> str:
    old, new, other, unit = _pick(source, _THINGS, 4)
    code = (
        f"def count_{old}s({other}s):\n    total = 0\n    for {other} in {other}s:\n"
        f"        if {other}.{unit} > {source.randint(2, 50)}:\n"
        f"            total += {other}.{unit}\n"
        f"    return total\n"
    )
    return (
        f"```python\n{code}```\n\nThe same function, renamed to count_{new}s:\n\n"
        f"```python\ndef count_{new}s({other}s):\n"
    )


def _chorus(source: random.Random) -> str:
    words = _pick(source, _COLOURS, 4)
    return " ".join(islice(cycle(words), 4 * source.randint(3, 6) + source.randint(0, 3)))


def _prose(source: random.Random) -> str:
    name, thing, place = source.choice(_NAMES), *_pick(source, _THINGS, 2)
    return (
        f"One evening {name} {source.choice(_VERBS)} the {source.choice(_COLOURS)} {thing} "
        f"near the {place}, and"
    )


_KINDS: Sequence[Callable[[random.Random], str]] = (
    _listing, _table, _dialogue, _code_edit, _chorus, _prose,
)  # fmt: skip
