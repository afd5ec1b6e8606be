"""Step 1: the target writes the training text: prompts and answers, or answers to yours."""

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from engine.errors import TrainingError
from engine.training.chat import ChatTemplate
from engine.training.documents import Document, DocumentFile
from engine.training.recipe import Prompts, TextSettings

_Item = TypeVar("_Item")


class Writes(Protocol):
    """What step 1 needs of the target; implemented by `engine.training.writer.Writer`."""

    async def write(
        self, tokens: list[int], *, most: int, temperature: float
    ) -> tuple[list[int], bool]:
        """Return up to `most` tokens that follow, and whether the target ended the text itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The choices for a document, drawn from seed and number before the target is asked."""

    number: int
    prompts: Prompts
    opening: str
    ending: str
    temperature: float

    @classmethod
    def draw(cls, settings: TextSettings, *, seed: int, number: int) -> "Plan":
        """Draw the plan of document `number`."""
        rng = random.Random(f"{seed}/{number}")  # noqa: S311  # not a secret
        (prompts,) = rng.choices(settings.prompts, [kind.weight for kind in settings.prompts])
        return cls(
            number,
            prompts,
            opening=rng.choice(prompts.openings),
            ending=rng.choice(prompts.endings),
            temperature=rng.choice(settings.answer_temperatures),
        )


async def write_documents(
    settings: TextSettings,
    documents: DocumentFile,
    *,
    seed: int,
    template: ChatTemplate,
    writer: Writes,
    progress: Callable[[int], None],
) -> None:
    """Write until there are `settings.tokens` answer tokens; resumes where an earlier run stopped.

    Args:
        settings: The recipe's.
        documents: File to which each finished document is appended.
        seed: The recipe's.
        template: The target's.
        writer: The target.
        progress: Called with the number of answer tokens of each new document.

    Raises:
        TrainingError: The worker failed; what was written is kept.
    """

    def plans() -> Iterator[Plan]:
        for number in itertools.count():
            if documents.tokens >= settings.tokens:
                return
            if number not in documents.numbers:
                yield Plan.draw(settings, seed=seed, number=number)

    async def work(plan: Plan) -> None:
        document = await _write(plan, settings, template, writer)
        documents.append(document)
        progress(len(document.answer))

    await _side_by_side(settings.concurrency, work, plans())


async def answer_prompts(
    settings: TextSettings,
    prompts: Sequence[Document],
    documents: DocumentFile,
    *,
    seed: int,
    writer: Writes,
    progress: Callable[[int], None],
) -> None:
    """Have the target answer prompts of your own data.

    Args:
        settings: The recipe's; answers have one of its temperatures.
        prompts: Documents without an answer.
        documents: File to which each answered one is appended.
        seed: The recipe's.
        writer: The target.
        progress: Called with 1 for each answer.

    Raises:
        TrainingError: The worker failed; what was written is kept.
    """

    async def work(prompt: Document) -> None:
        rng = random.Random(f"{seed}/{prompt.number}")  # noqa: S311  # not a secret
        answer, _ = await writer.write(
            list(prompt.prompt),
            most=settings.max_answer_tokens,
            temperature=rng.choice(settings.answer_temperatures),
        )
        documents.append(replace(prompt, answer=answer))
        progress(1)

    await _side_by_side(settings.concurrency, work, prompts)


async def _side_by_side(
    most: int, work: Callable[[_Item], Awaitable[None]], items: Iterable[_Item]
) -> None:
    """Do some work for each item, so many at once.

    Raises:
        TrainingError: The first that one of them raised.
    """
    rest = iter(items)

    async def work_on() -> None:
        for item in rest:
            await work(item)

    failure: Exception | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(most):
                group.create_task(work_on())
    except* TrainingError as failures:
        failure = failures.exceptions[0]
    if failure is not None:
        raise TrainingError(str(failure))


async def _write(
    plan: Plan, settings: TextSettings, template: ChatTemplate, writer: Writes
) -> Document:
    given_up = Document(plan.number, plan.prompts.kind, (), ())
    begun = template.begin_prompt(plan.opening)
    written, ended = await writer.write(
        begun, most=settings.max_prompt_tokens, temperature=settings.prompt_temperature
    )
    text = (plan.opening + template.decode(written)).strip()
    if not ended or not text:
        return given_up
    prompt = template.ask(text + plan.ending)
    answer, _ = await writer.write(
        prompt, most=settings.max_answer_tokens, temperature=plan.temperature
    )
    return Document(plan.number, plan.prompts.kind, prompt, answer)
