"""Your own data: conversations, prompts and texts from files, as documents to learn from.

A line of a .jsonl file is one record, in one of these forms:

    {"messages": [{"role": "user", "content": "..."}, ...]}        OpenAI's; "tools" is read, too
    {"conversations": [{"from": "human", "value": "..."}, ...]}    ShareGPT's
    {"prompt": "..."}                                              the target answers it
    {"prompt": "...", "completion": "..."}
    {"text": "..."}

Any other file is one text. A conversation is rendered with the target's own chat template; each
turn of the assistant becomes a document, and one that ends with a user's turn is answered by the
target.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.errors import TrainingError
from engine.training.chat import ChatTemplate, TemplateError
from engine.training.documents import Document

_ROLES = {"human": "user", "gpt": "assistant", "bing": "assistant", "chatgpt": "assistant"}
_COMPLETIONS = ("completion", "response", "answer")
_SHOWN_PLACES = 5
_MOST_LINE_BYTES = 32 << 20
_MOST_TEXT_BYTES = 1 << 30

Message = Mapping[str, Any]


class DropError(Exception):
    """A record is left out; the message says why, and nothing of its text."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a line holds: messages, or a plain text.

    Attributes:
        messages: Of a conversation; empty for a text.
        tools: As OpenAI has them, for the template.
        text: Without a template.
    """

    messages: Sequence[Message] = ()
    tools: Sequence[Any] | None = None
    text: str = ""

    @classmethod
    def read(cls, line: str) -> "Record":
        """Read a line of JSON.

        Raises:
            DropError: It is not in a known form.
        """
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as exc:
            raise DropError("not JSON") from exc
        if isinstance(found, str):
            found = {"prompt": found}
        if not isinstance(found, dict):
            raise DropError("not an object")
        if "messages" in found:
            return cls(_messages(found["messages"], "role", "content"), found.get("tools"))
        if "conversations" in found:
            return cls(_messages(found["conversations"], "from", "value"))
        if isinstance(found.get("prompt"), str):
            turns = [{"role": "user", "content": found["prompt"]}]
            answers = [found[name] for name in _COMPLETIONS if isinstance(found.get(name), str)]
            turns += [{"role": "assistant", "content": answers[0]}] if answers else []
            return cls(_messages(turns, "role", "content"))
        if isinstance(found.get("text"), str):
            return cls(text=found["text"])
        raise DropError("no messages, conversations, prompt or text")

    @property
    def digest(self) -> str:
        """Of its content; the same for the same conversation."""
        content = json.dumps([list(self.messages), self.tools, self.text], sort_keys=True)
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(slots=True)
class Report:
    """What became of the records.

    Attributes:
        records: How many there were.
        documents: Documents with an answer in the data.
        answer_tokens: Tokens of these answers.
        prompts: Conversations that the target is to answer.
        held_out: Conversations that are only evaluated on.
        template: Digest of the target's chat template.
        dropped: Records that were left out, by reason.
        places: Where the first of these are, as `file:line`, by reason.
    """

    template: str
    records: int = 0
    documents: int = 0
    answer_tokens: int = 0
    prompts: int = 0
    held_out: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, reason: str, place: str) -> None:
        """Count a record that is left out."""
        self.dropped[reason] += 1
        places = self.places.setdefault(reason, [])
        if len(places) < _SHOWN_PLACES:
            places.append(place)

    def lines(self) -> Iterator[str]:
        """Say it to a person."""
        yield (
            f"data: {self.records} records: {self.documents} answers with {self.answer_tokens:,} "
            f"tokens, {self.prompts} prompts to answer, {self.held_out} conversations held out"
        )
        for reason, count in self.dropped.most_common():
            where = ", ".join(self.places[reason])
            more = " ..." if count > _SHOWN_PLACES else ""
            yield f"data: {count} left out: {reason} ({where}{more})"

    def as_json(self) -> dict[str, Any]:
        """Return it for a file."""
        return {
            "template_sha256": self.template,
            "records": self.records,
            "documents": self.documents,
            "answer_tokens": self.answer_tokens,
            "prompts": self.prompts,
            "held_out": self.held_out,
            "dropped": [
                {"reason": reason, "records": count, "places": self.places[reason]}
                for reason, count in self.dropped.most_common()
            ],
        }


@dataclass(frozen=True, slots=True)
class OwnData:
    """The documents of some files.

    Attributes:
        documents: With the answers that the files have. Their numbers are below 0.
        prompts: Without an answer yet; the target writes it.
        report: What became of all records.
    """

    documents: Sequence[Document]
    prompts: Sequence[Document]
    report: Report

    @property
    def digest(self) -> str:
        """Of all documents."""
        digest = sha256()
        for one in (*self.documents, *self.prompts):
            digest.update(repr((one.number, one.held_out, one.prompt, one.answer)).encode())
        return digest.hexdigest()


def read_data(
    files: Sequence[Path],
    template: ChatTemplate,
    *,
    max_tokens: int,
    held_out_every: int,
) -> OwnData:
    """Read files into documents; the same files give the same ones.

    Args:
        files: JSON Lines or plain texts, in UTF-8.
        template: The target's.
        max_tokens: Longest document, prompt included; a longer text is cut into several.
        held_out_every: One conversation in this many is held out, by a hash of its content.

    Raises:
        TrainingError: A file cannot be read, is not UTF-8 or too large, or nothing is left.
    """
    reading = _Reading(template, max_tokens, held_out_every)
    for path in files:
        try:
            for place, record in read_records(path):
                reading.take(record, place, kind=path.stem)
        except OSError as exc:
            raise TrainingError(f"{path}: cannot be read: {exc}") from exc
    if not reading.documents and not reading.prompts:
        why = "; ".join(list(reading.report.lines())[1:]) or "the files are empty"
        raise TrainingError(f"data.files: nothing to learn from: {why}")
    return OwnData(reading.documents, reading.prompts, reading.report)


def read_records(path: Path) -> Iterator[tuple[str, str | Record]]:
    """Yield each record and its place; a line is not read yet.

    Raises:
        OSError: The file cannot be read.
        TrainingError: It is not UTF-8, or too large.
    """
    if path.suffix != ".jsonl":
        if path.stat().st_size > _MOST_TEXT_BYTES:
            raise TrainingError(f"{path}: a text of more than {_MOST_TEXT_BYTES >> 20} MiB")
        text = _decode(path.read_bytes(), path, line=1)
        yield path.name, Record(text=text.replace("\r\n", "\n"))
        return
    with path.open("rb") as file:
        lines = iter(lambda: file.readline(_MOST_LINE_BYTES + 1), b"")
        for number, line in enumerate(lines, 1):
            if len(line) > _MOST_LINE_BYTES:
                most = f"{_MOST_LINE_BYTES >> 20} MiB"
                raise TrainingError(f"{path}:{number}: a line of more than {most}")
            if line.strip():
                yield f"{path.name}:{number}", _decode(line, path, line=number)


def _decode(content: bytes, path: Path, *, line: int) -> str:
    """Return a text that begins on this line of a file.

    Raises:
        TrainingError: It is not UTF-8; the message names the line.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        at = line + exc.object.count(b"\n", 0, exc.start)
        raise TrainingError(f"{path}:{at}: cannot be read: not UTF-8") from exc


class _Reading:
    """Collects documents from records."""

    def __init__(self, template: ChatTemplate, max_tokens: int, held_out_every: int) -> None:
        self.documents: list[Document] = []
        self.prompts: list[Document] = []
        self.report = Report(template.digest)
        self._template = template
        self._max_tokens = max_tokens
        self._held_out_every = held_out_every
        self._seen: set[str] = set()
        self._number = 0

    def take(self, line: str | Record, place: str, *, kind: str) -> None:
        self.report.records += 1
        try:
            record = line if isinstance(line, Record) else Record.read(line)
            digest = record.digest
            if digest in self._seen:
                raise DropError("repeated")
            self._seen.add(digest)
            held_out = int(digest[:12], 16) % self._held_out_every == 0
            found = list(self._text(record) if record.text else self._turns(record))
            if not found:
                raise DropError("nothing to learn from: no answer and no question")
        except DropError as reason:
            self.report.drop(str(reason), place)
            return
        self.report.held_out += held_out
        for prompt, answer in found:
            self._number -= 1
            document = Document(
                self._number, kind, prompt, answer, held_out=held_out, is_given=bool(answer)
            )
            if answer:
                self.documents.append(document)
                self.report.documents += 1
                self.report.answer_tokens += len(answer)
            else:
                self.prompts.append(document)
                self.report.prompts += 1

    def _text(self, record: Record) -> Iterator[tuple[list[int], list[int]]]:
        tokens = self._template.encode(record.text)
        for begin in range(0, len(tokens), self._max_tokens):
            piece = tokens[begin : begin + self._max_tokens]
            if len(piece) > 1:  # the first token is the prompt
                yield piece[:1], piece[1:]

    def _turns(self, record: Record) -> Iterator[tuple[list[int], list[int]]]:
        """Yield prompt and answer of each turn of the assistant; an empty answer is to be written.

        Turns behind the longest document are left out.
        """
        messages, fitting = record.messages, False
        ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
        asks = messages[-1]["role"] != "assistant"
        for end in [*ends, *([len(messages)] if asks else [])]:
            try:
                prompt, answer = self._template.split(messages[: end + 1], end, record.tools)
            except TemplateError as exc:
                raise DropError(f"the chat template refuses it: {exc}") from exc
            if len(prompt) + len(answer) > self._max_tokens:
                break
            fitting = True
            yield prompt, answer
        if not fitting and (ends or asks):
            raise DropError(f"its first turn ends beyond data.max_tokens ({self._max_tokens})")


def _messages(found: Any, role: str, content: str) -> Sequence[Message]:
    """Return messages as templates expect them.

    Raises:
        DropError: They are not a conversation in text.
    """
    if not isinstance(found, list) or not found:
        raise DropError("no messages")
    messages: list[Message] = []
    for one in found:
        if not isinstance(one, dict) or not isinstance(one.get(role), str):
            raise DropError(f"a message without {role}")
        text = _text_of(one.get(content))
        name = one[role].lower()
        rest = {key: value for key, value in one.items() if key not in (role, content)}
        messages.append({**rest, "role": _ROLES.get(name, name), "content": text})
    if all(message["role"] == "system" for message in messages):
        raise DropError("only a system prompt")
    return messages


def _text_of(content: Any) -> str:
    if content is None:
        return ""  # an assistant's turn that only calls tools
    if isinstance(content, list):
        texts = [part["text"] for part in content if isinstance(part, dict) and "text" in part]
        if len(texts) == len(content) and all(isinstance(text, str) for text in texts):
            return "".join(texts)
    if not isinstance(content, str):
        raise DropError("content that is not text")
    return content
