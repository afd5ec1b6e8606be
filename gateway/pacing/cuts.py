"""Where text may be cut: never inside a character, preferably before a word.

A character is an extended grapheme cluster. Source: Unicode UAX 29, as `regex` implements it.
"""

import regex

_CLUSTER = regex.compile(r"\X")
# Ends that are likely to be continued: a joiner, an emoji (skin tone, joiner), half a flag, half a
# line end, a prepended sign, and a virama, which may join a consonant.
_OPEN_END = regex.compile(
    r"(?:\u200d|\p{Extended_Pictographic}[\p{M}\p{Emoji_Modifier}]*|"
    r"(?<!\p{RI})(?:\p{RI}{2})*\p{RI}|\r|\p{GCB=Prepend}|\p{InSC=Virama})\Z"
)
_TAIL_CHARACTERS = 64
"""Longer clusters do not occur in ordinary text."""


def cut(text: str, tokens: int, of: int) -> int:
    """Find roughly where the first `tokens` (1 to `of` - 1) of a text of `of` tokens end.

    Returns:
        Characters before the cut, at least 1 and not all; 0 if the text cannot be cut.
    """
    width = len(text) / of
    wanted = max(1, round(tokens * width))
    # Cut before a word (with its space) that begins within half a token.
    word = text.rfind(" ", 1, round(wanted + width / 2) + 1)
    at = word if word > wanted - width else wanted
    if not text.isascii() or "\r" in text:
        at = next((end for end in map(_end, _CLUSTER.finditer(text)) if end >= at), at)
    return at if at < len(text) else 0


def last_character(text: str) -> int:
    """Offset of the last character of `text` (not empty)."""
    tail = text[-_TAIL_CHARACTERS:]
    *_, last = _CLUSTER.finditer(tail)
    return len(text) - len(tail) + int(last.start())


def may_go_on(text: str) -> bool:
    """Whether the last character of `text` is likely to be continued by what follows."""
    if not text or (text[-1].isascii() and text[-1] != "\r"):
        return False
    return _OPEN_END.search(text, max(0, len(text) - _TAIL_CHARACTERS)) is not None


def goes_on(text: str, following: str) -> bool:
    """Whether the last character of `text` and the first of `following` are one character."""
    if not text or not following:
        return False
    if text[-1].isascii() and following[0].isascii():
        return text[-1] == "\r" and following[0] == "\n"
    last = text[last_character(text) :]
    cluster = _CLUSTER.match(last + following[:_TAIL_CHARACTERS])
    return bool(cluster.end() > len(last))


def _end(match: "regex.Match[str]") -> int:
    return int(match.end())
