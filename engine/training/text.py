"""Step 1: the target writes what a head is trained on, prompts and answers alike."""

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
    """What is needed of the target; `engine.training.writer.Writer` is one."""

    async def write(
        self, tokens: list[int], *, most: int, temperature: float
    ) -> tuple[list[int], bool]:
        """Return up to `most` tokens that follow, and whether the target ended by itself."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is decided of a document before the target is asked: a draw from seed and number."""

    number: int
    prompts: Prompts
    opening: str
    ending: str
    temperature: float

    @classmethod
    def draw(cls, settings: TextSettings, *, seed: int, number: int) -> "Plan":
        """Decide on document `number`."""
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
    """Write until there are `settings.tokens` answer tokens; goes on where an earlier run stopped.

    Args:
        settings: The recipe's.
        documents: Where they go, each as it is done.
        seed: The recipe's.
        template: The target's.
        writer: The target.
        progress: Told of the answer tokens of each new document.

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
