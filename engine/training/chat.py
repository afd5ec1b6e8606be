"""How a conversation reads to the target: the pieces of its own chat template."""

from collections.abc import Sequence
from typing import Any

from transformers import AutoTokenizer

from engine.errors import TrainingError

_MARK = "\u241fspecgate\u241f"
"""Stands for the user's text in a rendered template; no template says that by itself."""


class ChatTemplate:
    """Renders one user turn, whole or only begun, to token ids."""

    def __init__(self, model: str) -> None:
        """Read a model's tokenizer and template.

        Args:
            model: A folder or a Hugging Face id.

        Raises:
            TrainingError: It has none, or the template changes what a user wrote.
        """
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as exc:
            raise TrainingError(f"{model}: no tokenizer that transformers can load: {exc}") from exc
        if self._tokenizer.chat_template is None:
            raise TrainingError(f"{model}: has no chat template, and so no turns to write")
        rendered: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
        )
        pieces = rendered.split(_MARK)
        if len(pieces) != 2:
            raise TrainingError(f"{model}: its chat template does not show the user's text once")
        self._before, self._after = pieces

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
