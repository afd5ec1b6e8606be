"""How a conversation reads to the target: the pieces of its own chat template."""

from collections.abc import Sequence
from typing import Any

from transformers import AutoTokenizer

_MARK = "\u241fspecgate\u241f"
"""Stands for the user's text in a rendered template; no template says that by itself."""


class ChatTemplate:
    """Renders one user turn, whole or only begun, to token ids."""

    def __init__(self, model: str) -> None:
        self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        rendered = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
        )
        self._before, self._after = rendered.split(_MARK)

    def begin_prompt(self, opening: str) -> list[int]:
        """Return a conversation whose user has written only `opening` yet."""
        return self._encode(self._before + opening)

    def ask(self, text: str) -> list[int]:
        """Return a conversation in which it is the target's turn to answer `text`."""
        return self._encode(self._before + text + self._after)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of what a user wrote; end tokens are left out."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _encode(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens
