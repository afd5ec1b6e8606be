"""Renders conversations as the target reads them, with its own chat template."""

from collections.abc import Sequence
from typing import Any

from transformers import AutoTokenizer

from engine.errors import TrainingError

_MARK = "\u241fspecgate\u241f"
"""Placeholder for the user's text in a rendered template; occurs in no template."""


class ChatTemplate:
    """Renders one user turn, complete or only begun, to token ids."""

    def __init__(self, model: str) -> None:
        """Read a model's tokenizer and template.

        Args:
            model: A folder or a Hugging Face id.

        Raises:
            TrainingError: There is no template, or it changes the user's text.
        """
        try:
            self._tokenizer: Any = AutoTokenizer.from_pretrained(model)
        except (OSError, ValueError) as exc:
            raise TrainingError(f"{model}: transformers cannot load a tokenizer: {exc}") from exc
        if self._tokenizer.chat_template is None:
            raise TrainingError(f"{model}: the tokenizer has no chat template")
        rendered: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
        )
        pieces = rendered.split(_MARK)
        if len(pieces) != 2:
            raise TrainingError(f"{model}: the chat template must contain the user's text once")
        self._before, self._after = pieces

    def begin_prompt(self, opening: str) -> list[int]:
        """Return a conversation whose user turn begins with `opening` and is not finished."""
        return self._encode(self._before + opening)

    def ask(self, text: str) -> list[int]:
        """Return a conversation in which the target is to answer `text`."""
        return self._encode(self._before + text + self._after)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a user turn, without end tokens."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text

    def _encode(self, text: str) -> list[int]:
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens
