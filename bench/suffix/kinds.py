"""What each token of an answer is part of: prose, code, a tool call or JSON."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Kinds = NDArray[np.uint8]

KINDS = ("prose", "code", "tool_call", "json")
_PROSE, _CODE, _TOOL_CALL, _JSON = range(len(KINDS))
_WHOLE = {"code": _CODE, "code_edit": _CODE, "json_extraction": _JSON}  # by category
_PARTS = re.compile(r"(?P<tool><tool_call>.*?</tool_call>)|(?P<code>```.*?```)", re.DOTALL)


def kinds_of(answer: str, begins: Sequence[int], *, category: str) -> Kinds:
    """The kind of each token, as an index into `KINDS`.

    Args:
        begins: Where each token begins in `answer`, in characters.
        category: Of the record. An answer that is code or JSON as a whole is known by it.

    Returns:
        uint8, shape (len(begins),).
    """
    kinds = np.full(len(answer) + 1, _WHOLE.get(category, _PROSE), np.uint8)
    for part in _PARTS.finditer(answer):
        kinds[part.start() : part.end()] = _TOOL_CALL if part["tool"] else _CODE
    found: Kinds = kinds[np.asarray(begins, np.int64)]
    return found
