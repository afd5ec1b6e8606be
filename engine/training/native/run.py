"""Runs the steps of a recipe for one of vLLM's own drafters."""

import asyncio
import json
import shutil
import sys
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path

import torch
from pydantic import JsonValue

from engine.errors import TrainingError
from engine.training.export import licence_of
from engine.training.group import Group
from engine.training.native.card import write_card
from engine.training.native.dataset import Rows, has_mark, set_mark, write_dataset
from engine.training.native.process import FINISHED, run_library
from engine.training.native.recipe import NativeRecipe
from engine.training.native.states import (
    count_states,
    find_layers,
    serving_states,
    store_states,
)
from engine.training.progress import report
from engine.training.run import TextRun
from engine.training.writer import starting_writer

_POSITIONS = {"eagle3": "--ttt-steps", "peagle": "--num-depths", "dflash": "--block-size"}
# On CPUs: no compiled attention, no Triton, no fast bfloat16, and no processes to spare.
_ON_CPUS = (
    "--draft-attn-impl", "sdpa", "--loss-implementation", "eager",
    "--hidden-states-dtype", "float32", "--num-workers", "0",
)  # fmt: skip
_FIGURES = "evaluation.json"
_TRIAL_TOKENS = 8


class NativeRun(TextRun):
    """A recipe run by one process.

    Files in the recipe's folder: text.jsonl (step 1), data/ (2, with the hidden states), train/ (3,
    the library's checkpoints), evaluation.json (4), head/ (5).
    """

    _recipe: NativeRecipe

    def __init__(self, recipe: NativeRecipe, *, group: Group) -> None:
        """Prepare the run.

        Raises:
            TrainingError: There are several processes, which the library would have to start.
        """
        if group.processes > 1:
            raise TrainingError(f"head.kind {recipe.head.kind}: train it without torchrun")
        super().__init__(recipe, group=group)
        self._data = self._folder / "data"
        self._checkpoints = self._folder / "train"

    def write_states(self) -> None:
        """Step 2; without `hidden.store` it only writes the tokens."""
        write_dataset(self._rows, self._data, mark=self._data_mark)
        stored, rows = count_states(self._data), len(self._rows.tokens)
        if not self._recipe.hidden.store or stored >= rows:
            return
        report(f"starting the worker that computes hidden states; {stored} of {rows} are there")
        with self._serving_states() as endpoint:
            store_states(self._data, endpoint=endpoint, concurrency=self._recipe.hidden.concurrency)
        if (stored := count_states(self._data)) < rows:
            raise TrainingError(f"{rows - stored} documents have no hidden states; see hidden.log")

    def train(self) -> None:
        """Step 3.

        Raises:
            TrainingError: The library failed; its checkpoints are kept.
        """
        if self._is_trained:
            return
        if not has_mark(self._checkpoints, self._mark):
            shutil.rmtree(self._checkpoints, ignore_errors=True)
            self._checkpoints.mkdir()
            set_mark(self._checkpoints, self._mark)
        self._drop_incomplete()
        report("starting the library's trainer")
        if self._recipe.hidden.store:
            self._train()
        else:
            with self._serving_states() as endpoint:
                self._train("--on-missing", "generate", "--vllm-endpoint", endpoint)
        if not self._is_trained:
            raise TrainingError(f"training ended early; see {self._log}")

    def evaluate(self) -> None:
        """Step 4: the library's figures for the held-out text, of the best epoch."""
        path = self._best / "val_metrics.json"
        try:
            figures = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise TrainingError(f"{path}: the library left no figures: {exc}") from exc
        text = json.dumps({"mark": self._mark, **figures}, indent=2)
        (self._folder / _FIGURES).write_text(f"{text}\n", encoding="utf-8")

    def export(self) -> None:
        """Step 5: the best epoch's drafter, after a worker has drafted with it.

        Raises:
            TrainingError: vLLM does not take it.
        """
        folder = self._recipe.head_folder
        if has_mark(folder, self._mark):
            return
        trial = folder.with_name(f"{folder.name}.trial")
        shutil.rmtree(trial, ignore_errors=True)
        trial.mkdir()
        shutil.copy(self._best / "model.safetensors", trial)
        self._write_config(trial / "config.json")
        card = write_card(self._recipe, self._figures(), licence=licence_of(self._recipe))
        (trial / "README.md").write_text(card, encoding="utf-8")
        report("starting a worker that drafts with it")
        asyncio.run(self._try_out(trial))
        set_mark(trial, self._mark)
        shutil.rmtree(folder, ignore_errors=True)
        trial.rename(folder)
        report(f"the drafter is in {folder}; its README.md says how to serve it")

    def _drop_incomplete(self) -> None:
        """Remove checkpoints from which the library would not go on.

        Those during which it was killed, and that of the last epoch, if it was not measured.
        """
        for folder in self._checkpoints.glob("[0-9]*"):
            if not folder.name.isdecimal():
                continue
            state = folder / "training_state.json"  # what the library writes last
            is_last = int(folder.name) + 1 == self._recipe.train.epochs
            if not state.is_file() or (is_last and _is_at_end(state)):
                shutil.rmtree(folder)

    def _train(self, *states: str) -> None:
        head, train = self._recipe.head, self._recipe.train
        layers, _ = self._layers
        # The first position of a block of dflash is the token before the draft.
        positions = head.positions + (head.kind == "dflash")
        command = [
            sys.executable, "-m", "engine.training.native.trainer",
            "--speculator-type", head.kind,
            "--verifier-name-or-path", self._source,
            "--target-layer-ids", *map(str, layers),
            "--num-layers", str(head.decoder_layers),
            # Sliding windows would give the drafter a KV cache of another kind.
            "--full-attention-indices", *map(str, range(head.decoder_layers)),
            _POSITIONS[head.kind], str(positions),
            "--data-path", str(self._data),
            "--train-data-ratio", repr(self._rows.training_ratio),
            "--total-seq-len", str(train.sequence_tokens),
            "--epochs", str(train.epochs),
            "--lr", repr(train.learning_rate),
            "--checkpoint-freq", repr(1 / train.checkpoints_per_epoch),
            "--save-path", str(self._checkpoints),
            "--log-dir", str(self._checkpoints),
            "--logger", "tensorboard",
            "--seed", str(self._recipe.seed),
            *_given("--draft-vocab-size", head.draft_vocab_size),
            *_given("--mask-token-id", head.mask_token),
            *(states or ("--on-missing", "raise")),
            *(() if torch.accelerator.is_available() else _ON_CPUS),
        ]  # fmt: skip
        run_library(command, log=self._log, doing="training")

    def _serving_states(self) -> AbstractContextManager[str]:
        layers, count = self._layers
        return serving_states(
            self._recipe.engine,
            [*layers, count],  # the last one is what the drafter learns to predict
            staging=self._folder / "staging",
            log=self._folder / "worker.log",
        )

    def _write_config(self, path: Path) -> None:
        config = json.loads((self._best / path.name).read_text(encoding="utf-8"))
        # The library writes where this machine keeps the target.
        config["speculators_config"]["verifier"]["name_or_path"] = self._recipe.engine.model
        config.pop("auto_map", None)  # the library's own class for it, of which no copy is kept
        path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    async def _try_out(self, folder: Path) -> None:
        engine = self._recipe.engine
        native: dict[str, JsonValue] = {"config": self._recipe.head.drafter(folder)}
        profile = {
            **engine.model_dump(mode="json", exclude_unset=True),
            # Whatever it drafts is verified, be it worth the time or not.
            "speculation": {"sources": ["native"], "native": native, "fixed_price": 0.0},
        }
        async with starting_writer(
            profile,
            model=engine.served_model_name or engine.model,
            log=self._folder / "worker.log",
        ) as writer:
            answer = await writer.ask(
                prompt=list(self._rows.tokens[-1][:_TRIAL_TOKENS]),
                max_tokens=_TRIAL_TOKENS,
                temperature=0.0,
                ignore_eos=True,
            )
        if not answer["metrics"]["speculative_decoding"]["num_draft_tokens"]:
            raise TrainingError(f"{folder}: vLLM loads the drafter, but it drafted nothing")

    def _figures(self) -> dict[str, JsonValue]:
        text = (self._folder / _FIGURES).read_text(encoding="utf-8")
        figures: dict[str, JsonValue] = json.loads(text)
        return {name: value for name, value in figures.items() if name != "mark"}

    @property
    def _log(self) -> Path:
        return self._folder / "train.log"

    @property
    def _is_trained(self) -> bool:
        return has_mark(self._checkpoints, self._mark) and (self._checkpoints / FINISHED).exists()

    @property
    def _best(self) -> Path:
        """Checkpoint of the epoch with the lowest loss on what is held out."""
        return self._checkpoints / "checkpoint_best"

    @cached_property
    def _layers(self) -> tuple[list[int], int]:
        return find_layers(self._source, self._recipe.head.layers)

    @cached_property
    def _rows(self) -> Rows:
        corpus = self._corpus
        return Rows.of(corpus.training, corpus.held_out, longest=self._recipe.longest)

    @cached_property
    def _data_mark(self) -> str:
        return self._rows.mark(self._source, self._layers, self._recipe.engine.vllm.get("dtype"))

    @cached_property
    def _mark(self) -> str:
        head = self._recipe.head.model_dump(mode="json", exclude_defaults=True)
        train = self._recipe.train.model_dump(
            mode="json", exclude_defaults=True, exclude={"checkpoints_per_epoch"}
        )
        return self._rows.mark(self._data_mark, self._recipe.seed, head, train)


def _is_at_end(state: Path) -> bool:
    """Tell whether a checkpoint's state is that after an epoch; 0 is the library's word for it."""
    return bool(json.loads(state.read_text(encoding="utf-8"))["local_step"] == 0)


def _given(flag: str, value: int | None) -> list[str]:
    return [] if value is None else [flag, str(value)]
