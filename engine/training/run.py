"""Runs the five steps of a recipe, each resumed where an earlier run stopped."""

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import torch
from pydantic import JsonValue

from engine.errors import TrainingError
from engine.heads import DraftHead
from engine.training.assembly import (
    Vocabulary,
    build_head,
    build_trainer,
    load_first_head,
    mark_of,
)
from engine.training.chat import ChatTemplate
from engine.training.data import read_data
from engine.training.documents import Document, DocumentFile
from engine.training.evaluation import evaluate
from engine.training.export import Facts, export_head
from engine.training.group import Group
from engine.training.loop import Course, train
from engine.training.plot import plot_acceptance
from engine.training.progress import report, shown_progress
from engine.training.recipe import Recipe, RecipeBase
from engine.training.shard import Shard, beginning
from engine.training.states import States, StoredStates, StreamedStates, cut_documents
from engine.training.steps import STEPS, Step
from engine.training.target import Target, find_target, load_target
from engine.training.text import answer_prompts, write_documents
from engine.training.writer import starting_writer

TEXT_FILE, DATA_FILE = "text.jsonl", "data.json"
_FIGURES = "evaluation.json"


@dataclass(frozen=True, slots=True)
class Corpus:
    """The text, split by use.

    Attributes:
        training: Documents that a head is trained on.
        held_out: Documents that it is evaluated on.
    """

    training: list[Document]
    held_out: list[Document]

    @classmethod
    def of(cls, documents: Iterable[Document], *, held_out_every: int) -> Self:
        """Split documents, by their numbers or as they say, each independently of the others.

        Raises:
            TrainingError: A part has nothing that a head could draft.
        """
        parts: tuple[list[Document], list[Document]] = ([], [])
        for document in documents:
            held_out = document.held_out
            if held_out is None:
                held_out = (document.number + 1) % held_out_every == 0
            parts[held_out].append(document)
        for part in parts:
            if not any(len(document.answer) > 1 for document in part):
                raise TrainingError(
                    "too little text to hold some of it out: increase text.tokens, add data, or "
                    "lower text.held_out_every"
                )
        return cls(*parts)


class TextRun(ABC):
    """The steps of a recipe, of which the first is the same for all kinds of heads."""

    def __init__(self, recipe: RecipeBase, *, group: Group) -> None:
        self._recipe = recipe
        self._group = group
        self._folder = recipe.run_folder

    def carry_out(self, until: Step) -> None:
        """Run all steps up to and including this one.

        Raises:
            TrainingError: A step failed; the next run resumes there.
        """
        steps = {
            "text": self.write_text,
            "hidden": self.write_states,
            "train": self.train,
            "evaluate": self.evaluate,
            "export": self.export,
        }
        for step in STEPS[: STEPS.index(until) + 1]:
            steps[step]()
            self._group.wait()

    def write_text(self) -> None:
        """Step 1. Only rank 0 starts the worker, which may use all devices."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._group.is_first:
            asyncio.run(self._write_text())

    @abstractmethod
    def write_states(self) -> None:
        """Step 2."""

    @abstractmethod
    def train(self) -> None:
        """Step 3."""

    @abstractmethod
    def evaluate(self) -> None:
        """Step 4."""

    @abstractmethod
    def export(self) -> None:
        """Step 5."""

    async def _write_text(self) -> None:
        recipe = self._recipe
        documents = DocumentFile(self._folder / TEXT_FILE)
        asked = self._take_data(documents)
        if documents.tokens >= recipe.text.tokens and not asked:
            return
        engine = recipe.engine
        template = ChatTemplate(self._source)
        report("starting the worker that writes the text")
        async with starting_writer(
            engine.model_dump(mode="json", exclude_unset=True),
            model=engine.served_model_name or engine.model,
            log=self._folder / "worker.log",
        ) as writer:
            with shown_progress("answers", done=0, total=len(asked), unit="prompts") as advance:
                await answer_prompts(
                    recipe.text,
                    asked,
                    documents,
                    seed=recipe.seed,
                    writer=writer,
                    progress=advance,
                )
            with shown_progress(
                "text", done=documents.tokens, total=recipe.text.tokens, unit="tokens"
            ) as advance:
                await write_documents(
                    recipe.text,
                    documents,
                    seed=recipe.seed,
                    template=template,
                    writer=writer,
                    progress=advance,
                )

    def _take_data(self, documents: DocumentFile) -> list[Document]:
        """Add the documents of the recipe's own data; return those that the target is to answer.

        Raises:
            TrainingError: The data changed since an earlier run.
        """
        settings = self._recipe.data
        if settings is None:
            return []
        data = read_data(
            settings.files,
            ChatTemplate(self._source),
            max_tokens=settings.max_tokens,
            held_out_every=self._recipe.text.held_out_every,
        )
        said = json.dumps({"digest": data.digest, **data.report.as_json()}, indent=2)
        path = self._folder / DATA_FILE
        if path.exists() and json.loads(path.read_text("utf-8"))["digest"] != data.digest:
            raise TrainingError(
                f"data.files: not what {self._folder} began with; remove that folder, or give the "
                "recipe another name"
            )
        path.write_text(f"{said}\n", encoding="utf-8")
        for line in data.report.lines():
            report(line)
        for document in data.documents:
            if document.number not in documents.numbers:
                documents.append(document)
        return [one for one in data.prompts if one.number not in documents.numbers]

    @cached_property
    def _source(self) -> str:
        return find_target(self._recipe.engine, report=report)

    @cached_property
    def _corpus(self) -> Corpus:
        documents = DocumentFile(self._folder / TEXT_FILE)
        return Corpus.of(documents, held_out_every=self._recipe.text.held_out_every)


class Run(TextRun):
    """A recipe of a head of ours, run by a group of processes.

    Files in the recipe's folder: text.jsonl and data.json (step 1), states/ (2), train/ (3),
    evaluation.json and acceptance.png (4), head/ (5).
    """

    _recipe: Recipe

    def __init__(self, recipe: Recipe, *, group: Group) -> None:
        super().__init__(recipe, group=group)

    def write_states(self) -> None:
        """Step 2; does nothing if the recipe streams states."""
        for part, states in (("training", self._training), ("held-out", self._held_out)):
            if isinstance(states, StoredStates):
                self._store(f"hidden, {part}", states)

    def train(self) -> None:
        """Step 3."""
        course = Course(
            folder=self._folder / "train",
            mark=self._mark,
            seed=self._recipe.seed,
            states=self._training,
            held_out=beginning(self._held_out_shards, self._recipe.train.evaluate_tokens),
            window_shards=None if self._recipe.hidden.store else self._recipe.hidden.window_shards,
        )
        trainer = build_trainer(
            self._recipe, self._head, self._target, self._vocabulary, group=self._group
        )
        train(trainer, course, self._recipe.train, group=self._group)

    def evaluate(self) -> None:
        """Step 4, for the head as served, in bfloat16."""
        held_out = self._held_out_shards  # all processes may have to compute these together
        if not self._group.is_first or self._figures() is not None:
            return
        found = evaluate(self._served_head, held_out, device=self._group.device)
        plot_acceptance(found, self._folder / "acceptance.png", title=self._recipe.name)
        text = json.dumps({"mark": self._mark, **found.as_json()}, indent=2)
        (self._folder / _FIGURES).write_text(f"{text}\n", encoding="utf-8")
        total = found.total
        report(
            f"{total.ratio:.1%} of drafted tokens accepted, {total.length:.2f} tokens per step; "
            f"see {self._folder / _FIGURES} and acceptance.png"
        )

    def export(self) -> None:
        """Step 5."""
        if not self._group.is_first:
            return
        figures = self._figures()
        assert figures is not None
        first = self._first_head
        earlier = None if first is None else first.config.card.get("training_tokens")
        facts = Facts(
            figures=figures,
            training_tokens=sum(len(document.answer) for document in self._corpus.training),
            data_tokens=sum(len(one.answer) for one in self._corpus.training if one.is_given),
            earlier_tokens=earlier if isinstance(earlier, int) else 0,
            coverage_ratio=self._vocabulary.coverage_ratio,
            mark=self._mark,
        )
        export_head(self._served_head, self._recipe, facts, self._recipe.head_folder)
        report(f"the head is in {self._recipe.head_folder}")

    def _states(self, part: str, documents: Sequence[Document]) -> States:
        settings = self._recipe.hidden
        cuts = cut_documents(
            documents, shard_tokens=settings.shard_tokens, prompt_rows=self._recipe.prompt_rows
        )
        if settings.store:
            return StoredStates(self._folder / "states", part, cuts, target=self._source)
        return StreamedStates(
            self._target, cuts, batch_tokens=settings.batch_tokens, group=self._group
        )

    def _store(self, part: str, states: StoredStates) -> None:
        if outdated := states.outdated():
            report(
                f"{part}: {outdated} shards have an older format, without prompts; computing them "
                "again"
            )
        missing = states.missing()
        self._group.wait()  # no process writes before all have looked
        mine = missing[self._group.rank :: self._group.processes]
        if not mine:
            return
        target = self._target  # reports that it is loading, so before the progress bar
        total = sum(states.rows)
        done = total - sum(states.rows[number] for number in missing)
        with shown_progress(part, done=done, total=total, unit="tokens") as advance:
            for number in mine:
                states.write(
                    number,
                    target,
                    batch_tokens=self._recipe.hidden.batch_tokens,
                    progress=advance,
                )

    def _figures(self) -> dict[str, JsonValue] | None:
        """Return the figures of step 4 if they belong to this head."""
        path = self._folder / _FIGURES
        if not path.exists():
            return None
        figures: dict[str, JsonValue] = json.loads(path.read_text(encoding="utf-8"))
        return figures if figures.pop("mark") == self._mark else None

    @cached_property
    def _target(self) -> Target:
        report(f"loading {self._recipe.engine.model}")
        return load_target(self._source, self._recipe.engine, device=self._group.device)

    @cached_property
    def _mark(self) -> str:
        return mark_of(self._recipe, self._corpus.training, self._first_head)

    @cached_property
    def _training(self) -> States:
        return self._states("training", self._corpus.training)

    @cached_property
    def _held_out(self) -> States:
        return self._states("held-out", self._corpus.held_out)

    @cached_property
    def _held_out_shards(self) -> list[Shard]:
        return self._held_out.load(range(len(self._held_out.rows)))

    @cached_property
    def _first_head(self) -> DraftHead | None:
        folder = self._recipe.first_head
        if folder is None:
            return None
        return load_first_head(folder, self._target, source=self._source)

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        if self._first_head is not None:
            return Vocabulary.of_head(self._corpus.training, self._first_head)
        return Vocabulary.of(
            self._corpus.training,
            self._recipe.head.draft_vocab_size,
            vocab_size=self._target.vocab_size,
        )

    @cached_property
    def _head(self) -> DraftHead:
        return build_head(
            self._recipe,
            self._target,
            self._vocabulary,
            source=self._source,
            first=self._first_head,
        )

    @cached_property
    def _served_head(self) -> DraftHead:
        """The result of step 3, in the dtype that is stored and served."""
        self._head.to(torch.bfloat16)
        self._head.eval()
        return self._head
