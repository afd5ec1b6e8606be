"""Step 1: the target writes the training text, both prompts and answers."""

import asyncio
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.errors import TrainingError
from engine.training.chat import ChatTemplate
from engine.training.documents import Document, DocumentFile
from engine.training.recipe import Prompts, TextSettings


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
    plans = (
        Plan.draw(settings, seed=seed, number=number)
        for number in itertools.count()
        if number not in documents.numbers
    )

    failure: Exception | None = None

    async def work(plans: Iterator[Plan]) -> None:
        for plan in plans:
            if documents.tokens >= settings.tokens:
                return
            document = await _write(plan, settings, template, writer)
            documents.append(document)
            progress(len(document.answer))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(settings.concurrency):
                group.create_task(work(plans))
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
