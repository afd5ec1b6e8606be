"""Where a text may be cut: never within what a reader sees as one character, best before a word.

Pure. Characters are extended grapheme clusters. Source: Unicode UAX 29, as `regex` implements it.
"""

from bisect import bisect_left

import regex

_CLUSTER = regex.compile(r"\X")
# What goes on more often than not: a joiner, an emoji (skin tone, joiner), half a flag, half a
# line end, a sign that binds to what follows, and a virama, which may bind a consonant.
_OPEN_END = regex.compile(
    r"(?:\u200d|\p{Extended_Pictographic}[\p{M}\p{Emoji_Modifier}]*|"
    r"(?<!\p{RI})(?:\p{RI}{2})*\p{RI}|\r|\p{GCB=Prepend}|\p{InSC=Virama})\Z"
)
_TAIL_CHARACTERS = 64
"""Longer clusters than this do not occur in text that people read."""


def cut(text: str, parts: int) -> list[str]:
    """Cut `text` into at most `parts` (>= 1) of about one length; joined they are the text."""
    if parts < 2 or len(text) < 2:
        return [text]
    plain = text.isascii() and "\r" not in text
    borders = None if plain else [match.end() for match in _CLUSTER.finditer(text)]
    width = len(text) / parts
    pieces: list[str] = []
    begin = 0
    for number in range(1, parts):
        wanted = round(number * width)
        # A word that begins no further than half a piece away takes its blank along.
        word = text.rfind(" ", begin + 1, round(wanted + width / 2) + 1)
        at = word if word > wanted - width else wanted
        if borders is not None:
            at = borders[bisect_left(borders, at)] if at > 0 else 0
        if begin < at < len(text):
            pieces.append(text[begin:at])
            begin = at
    pieces.append(text[begin:])
    return pieces


def may_go_on(text: str) -> bool:
    """Whether the last character of `text` is likely to be one with what comes next."""
    if not text or (text[-1].isascii() and text[-1] != "\r"):
        return False
    return _OPEN_END.search(text, max(0, len(text) - _TAIL_CHARACTERS)) is not None


def goes_on(text: str, following: str) -> bool:
    """Whether the last character of `text` is one with the first of `following`."""
    if not text or not following:
        return False
    if text[-1].isascii() and following[0].isascii():
        return text[-1] == "\r" and following[0] == "\n"
    tail = text[-_TAIL_CHARACTERS:]
    *_, last = _CLUSTER.finditer(tail)
    begin = last.start()
    cluster = _CLUSTER.match(tail + following[:_TAIL_CHARACTERS], begin)
    return bool(cluster.end() > len(tail))
