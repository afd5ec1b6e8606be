import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.errors import TrainingError
from engine.training.documents import Document, DocumentFile
from engine.training.recipe import TextSettings
from engine.training.text import Plan, answer_prompts, write_documents

PROMPT, ANSWER = 1, 2


class Template:
    """A template whose token ids are characters."""

    def begin_prompt(self, opening: str) -> list[int]:
        return [PROMPT, *map(ord, opening)]

    def ask(self, text: str) -> list[int]:
        return [ANSWER, *map(ord, text)]

    def decode(self, tokens: list[int]) -> str:
        return "".join(map(chr, tokens))


class Writer:
    """Continues prompts with `reply` and answers with five tokens; the n-th call may fail."""

    def __init__(
        self, *, reply: str = " you", ends: bool = True, fails_at: int | None = None
    ) -> None:
        self.asked: list[tuple[int, int, float]] = []
        self.running = self.most_running = 0
        self._reply = reply
        self._ends = ends
        self._fails_at = fails_at

    async def write(
        self, tokens: list[int], *, most: int, temperature: float
    ) -> tuple[list[int], bool]:
        self.asked.append((tokens[0], most, temperature))
        if len(self.asked) == self._fails_at:
            raise TrainingError("the worker is gone")
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if tokens[0] == PROMPT:
            return list(map(ord, self._reply)), self._ends
        return [7] * 5, False


def settings(**changes: Any) -> TextSettings:
    given: dict[str, Any] = {
        "tokens": 30,
        "prompts": [
            {"kind": "chat", "weight": 3},
            {"kind": "code", "weight": 1, "openings": ["def "], "endings": ["!"]},
        ],
        "prompt_temperature": 0.9,
        "answer_temperatures": [0.0, 1.0],
        "max_prompt_tokens": 11,
        "max_answer_tokens": 22,
        "concurrency": 3,
    }
    return TextSettings.model_validate({**given, **changes})


async def write(text: TextSettings, path: Path, writer: Writer) -> tuple[DocumentFile, list[int]]:
    documents = DocumentFile(path)
    progress: list[int] = []
    await write_documents(
        text,
        documents,
        seed=1,
        template=Template(),  # type: ignore[arg-type]  # the three functions that count
        writer=writer,
        progress=progress.append,
    )
    return documents, progress


async def test_it_writes_until_there_are_enough_tokens(tmp_path: Path) -> None:
    writer = Writer()

    documents, progress = await write(settings(), tmp_path / "t", writer)

    assert documents.tokens == sum(progress) >= 30
    assert documents.tokens <= 30 + 5 * 2  # what other tasks were writing
    assert writer.most_running == 3
    for document in documents:
        text = " you" if document.kind == "chat" else "def  you"
        ending = "" if document.kind == "chat" else "!"
        assert list(document.prompt) == Template().ask(text.strip() + ending)
        assert list(document.answer) == [7] * 5


async def test_prompts_and_answers_have_their_own_limits(tmp_path: Path) -> None:
    writer = Writer()

    await write(settings(), tmp_path / "t", writer)

    prompts = {asked[1:] for asked in writer.asked if asked[0] == PROMPT}
    answers = {asked[1:] for asked in writer.asked if asked[0] == ANSWER}
    assert prompts == {(11, 0.9)}
    assert answers == {(22, 0.0), (22, 1.0)}


async def test_a_later_run_writes_the_missing_documents(tmp_path: Path) -> None:
    await write(settings(), tmp_path / "t", Writer())
    before = DocumentFile(tmp_path / "t").numbers

    documents, _ = await write(settings(tokens=60), tmp_path / "t", Writer())

    assert before < documents.numbers
    assert len(list(documents)) == len(documents.numbers) >= 12
    assert {d.number: d.kind for d in documents} == {
        n: Plan.draw(settings(), seed=1, number=n).prompts.kind for n in documents.numbers
    }


@pytest.mark.parametrize(
    "writer",
    [Writer(ends=False, fails_at=5), Writer(reply="  ", fails_at=5)],
    ids=["long", "empty"],
)
async def test_an_endless_or_empty_prompt_is_dropped(tmp_path: Path, writer: Writer) -> None:
    text = settings(prompts=[{"kind": "chat", "weight": 1}], concurrency=1)
    path = tmp_path / "t"

    with pytest.raises(TrainingError):  # it would never end
        await write(text, path, writer)

    found = list(DocumentFile(path))
    assert [document.number for document in found] == list(range(4))
    assert all(not document.prompt and not document.answer for document in found)
    assert all(asked[0] == PROMPT for asked in writer.asked)


def test_a_plan_depends_on_seed_and_number_only() -> None:
    text = settings()

    plans = [Plan.draw(text, seed=1, number=number) for number in range(400)]

    assert plans == [Plan.draw(text, seed=1, number=number) for number in range(400)]
    assert plans != [Plan.draw(text, seed=2, number=number) for number in range(400)]
    kinds = Counter(plan.prompts.kind for plan in plans)
    assert 2 < kinds["chat"] / kinds["code"] < 4
    assert Counter(plan.temperature for plan in plans).keys() == {0.0, 1.0}


def own(*numbers: int) -> list[Document]:
    return [Document(number, "own", [ANSWER, 8], [], held_out=number == -2) for number in numbers]


async def test_the_target_answers_your_own_prompts(tmp_path: Path) -> None:
    writer, documents = Writer(), DocumentFile(tmp_path / "text.jsonl")
    told: list[int] = []

    await answer_prompts(
        settings(concurrency=2), own(-1, -2, -3), documents,
        seed=1, writer=writer, progress=told.append,
    )  # fmt: skip

    assert [(one.number, list(one.answer), one.held_out) for one in documents] == [
        (-1, [7] * 5, None), (-2, [7] * 5, True), (-3, [7] * 5, None),
    ]  # fmt: skip
    assert documents.tokens == 0  # of what the recipe asks the target to write
    assert (told, writer.most_running) == ([1, 1, 1], 2)


async def test_an_answer_has_the_same_temperature_in_every_run(tmp_path: Path) -> None:
    hot = settings(answer_temperatures=[0.0, 0.5, 1.0], concurrency=1)
    runs = []
    for name in "ab":
        writer = Writer()
        file = DocumentFile(tmp_path / name)
        await answer_prompts(
            hot, own(-1, -2, -3, -4), file, seed=1, writer=writer, progress=lambda _: None
        )
        runs.append([temperature for *_, temperature in writer.asked])

    assert runs[0] == runs[1]
    assert len(set(runs[0])) > 1


async def test_a_failing_worker_keeps_the_answers_so_far(tmp_path: Path) -> None:
    documents = DocumentFile(tmp_path / "text.jsonl")

    with pytest.raises(TrainingError, match="the worker is gone"):
        await answer_prompts(
            settings(concurrency=1), own(-1, -2, -3), documents,
            seed=1, writer=Writer(fails_at=2), progress=lambda _: None,
        )  # fmt: skip

    assert documents.numbers == {-1}
