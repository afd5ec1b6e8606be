"""Renders conversations as the target reads them, with its own chat template."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

import jinja2
from transformers import AutoTokenizer

from engine.errors import TrainingError

_MARK = "\u241fspecgate\u241f"
"""Placeholder for the user's text in a rendered template; occurs in no template."""


class TemplateError(Exception):
    """The template refuses a conversation; the message says why in a few words."""


class ChatTemplate:
    """Renders conversations, complete or only begun, to token ids.

    Attributes:
        digest: SHA-256 of the template.
    """

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
        self.digest = sha256(str(self._tokenizer.chat_template).encode()).hexdigest()
        rendered: str = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": _MARK}], tokenize=False, add_generation_prompt=True
        )
        pieces = rendered.split(_MARK)
        if len(pieces) != 2:
            raise TrainingError(f"{model}: the chat template must contain the user's text once")
        self._before, self._after = pieces

    def begin_prompt(self, opening: str) -> list[int]:
        """Return a conversation whose user turn begins with `opening` and is not finished."""
        return self.encode(self._before + opening)

    def ask(self, text: str) -> list[int]:
        """Return a conversation in which the target is to answer `text`."""
        return self.encode(self._before + text + self._after)

    def split(
        self, messages: Sequence[Mapping[str, Any]], end: int, tools: Sequence[Any] | None
    ) -> tuple[list[int], list[int]]:
        """Return what the target reads before a turn, and the turn as it would write it.

        Args:
            messages: Of a conversation, up to and including the turn.
            end: How many of them come before it; all if it is still to be written.
            tools: As OpenAI has them.

        Returns:
            Token ids of both; the second one ends with the end token, and is empty if there is
            no turn.

        Raises:
            TemplateError: The template refuses the conversation, or renders its beginning
                otherwise once the turn is there.
        """
        before = self._render(messages[:end], tools, asks=True)
        if end == len(messages):
            return self.encode(before), []
        whole = self._render(messages, tools, asks=False)
        if not whole.startswith(before):
            raise TemplateError("it renders earlier turns otherwise once a later one is there")
        answer = self.encode(whole[len(before) :])
        stop = self._tokenizer.eos_token_id
        if stop in answer:  # a line break may follow, which the target does not write
            answer = answer[: answer.index(stop) + 1]
        if not answer:
            raise TemplateError("it renders nothing for a turn of the assistant")
        return self.encode(before), answer

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text as it stands."""
        tokens: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return tokens

    def _render(
        self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] | None, *, asks: bool
    ) -> str:
        try:
            rendered: str = self._tokenizer.apply_chat_template(
                list(messages), tools=tools, tokenize=False, add_generation_prompt=asks
            )
        # Templates are programs: what they raise for a conversation may be anything.
        except Exception as exc:  # the record is left out, and counted
            raise TemplateError(_in_short(exc)) from exc
        return rendered

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of a user turn, without end tokens."""
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text


def _in_short(exc: Exception) -> str:
    """Return the first line of a template's own error; of another one only its class.

    A template raises its own errors with fixed texts. Others may quote the conversation.
    """
    if isinstance(exc, jinja2.TemplateError) and str(exc):
        return str(exc).splitlines()[0][:120]
    return type(exc).__name__
