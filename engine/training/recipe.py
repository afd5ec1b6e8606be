"""A recipe: everything that decides what a training run does, in one YAML file."""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from engine.config import EngineSettings, process_environment
from engine.errors import RecipeError
from engine.heads import HeadConfig

HEAD_FOLDER = "head"

# Of a head's configuration: what follows from the target, or is ours to write.
_FROM_TARGET = {"hidden_size": 1, "vocab_size": 1 << 31}
_NOT_IN_RECIPES = frozenset({*_FROM_TARGET, "card", "format", "tokenizer_sha256", "version"})


def _complete_head(shape: object) -> object:
    """Add what the target will say, so that the shape is checked before a target is there."""
    if not isinstance(shape, dict):
        return shape
    if reserved := sorted(_NOT_IN_RECIPES & shape.keys()):
        raise ValueError(f"not for a recipe to say: {', '.join(reserved)}")
    return {**shape, **_FROM_TARGET}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prompts(_Section):
    """One kind of prompts. The target goes on from an opening, and so writes the user's turn.

    An empty opening is the bare user turn of arXiv 2406.08464 (Magpie).
    """

    kind: str = Field(min_length=1, description="Its name in reports.")
    weight: float = Field(gt=0, description="Its share of the documents, against the others'.")
    openings: tuple[str, ...] = Field(
        default=("",), min_length=1, description="Beginnings of a user's turn."
    )
    endings: tuple[str, ...] = Field(
        default=("",), min_length=1, description="What is put behind the turn that was written."
    )


class TextSettings(_Section):
    """Step 1: the target writes prompts and answers them."""

    tokens: int = Field(ge=1, description="Answer tokens to write.")
    prompts: tuple[Prompts, ...] = Field(min_length=1, description="Where prompts come from.")
    prompt_temperature: float = Field(default=1.0, ge=0, description="For prompts.")
    answer_temperatures: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(1.0,), min_length=1, description="For answers; each as often as the others."
    )
    max_prompt_tokens: int = Field(default=256, ge=1, description="Longer prompts are given up.")
    max_answer_tokens: int = Field(default=512, ge=1, description="Answers are cut here.")
    concurrency: int = Field(default=64, ge=1, description="Documents that are written at once.")
    held_out_every: int = Field(
        default=50, ge=2, description="One document in so many is for evaluation alone."
    )


class HiddenSettings(_Section):
    """Step 2: the target's hidden states over what it wrote."""

    store: bool = Field(
        default=True,
        description="Keep them in files (a bfloat16 state a token); else they are computed again "
        "in each epoch.",
    )
    batch_tokens: int = Field(default=4096, ge=1, description="Read by the target at once.")
    max_prompt_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Tokens of a prompt, its last ones, that have states too; null for as many as "
        "the head looks back.",
    )
    shard_tokens: int = Field(
        default=32768, ge=1, description="Tokens of a shard: what a killed run loses."
    )
    window_shards: int = Field(
        default=16, ge=1, description="Shards among which rows are mixed if nothing is stored."
    )


class TrainSettings(_Section):
    """Step 3."""

    start_from: str | None = Field(
        default=None,
        min_length=1,
        description="Name of a recipe with a head of the same shape: its weights and its "
        "vocabulary are the first ones of this one.",
    )
    steps: int = Field(ge=1, description="Optimizer steps.")
    batch_tokens: int = Field(
        default=8192, ge=1, description="Positions of a step, of all processes together."
    )
    micro_batch_tokens: int = Field(
        default=2048, ge=1, description="Positions computed at once; halved when memory runs out."
    )
    run_tokens: int = Field(
        default=32, ge=1, description="Positions that follow each other, drawn as one."
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="Its peak; then down a cosine.")
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1, description="Share of steps to the peak.")
    final_ratio: float = Field(default=0.0, ge=0, le=1, description="Where the cosine ends.")
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="Of AdamW.")
    weight_decay: float = Field(default=0.1, ge=0, description="Of matrices; norms have none.")
    clip_norm: float = Field(default=1.0, gt=0, description="Most length of a gradient.")
    position_weights: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        default=None, description="Of the loss at each position; null for 1 each."
    )
    distillation_ratio: float = Field(
        default=0.0, ge=0, le=1, description="Share of the loss against the target's distribution."
    )
    distillation_temperature: float = Field(
        default=1.0,
        gt=0,
        description="Of the target's distribution in that share; below 1 what it says first counts "
        "more, which is what a greedy draft is to hit.",
    )
    prompt_weight: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="What tokens of prompts count in that share, against those of answers.",
    )
    bfloat16: bool | None = Field(
        default=None,
        description="Multiply in bfloat16 (autocast); by default where the processor does that.",
    )
    checkpoint_every_s: float = Field(default=60.0, gt=0, description="What a killed run loses.")
    checkpoint_every_steps: int = Field(default=500, ge=1, description="The same, in steps.")
    log_every_steps: int = Field(default=20, ge=1, description="Lines of train.csv.")
    evaluate_every_steps: int = Field(default=500, ge=1, description="Lines of evaluate.csv.")
    evaluate_tokens: int = Field(default=10_000, ge=1, description="Held-out tokens for those.")


class ExportSettings(_Section):
    """Step 5."""

    most_mb: float | None = Field(
        default=None, gt=0, description="A head's file may take so many MB (10^6 bytes) at most."
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="Rows that a head with a window looks at when it drafts; null for as many as "
        "in training.",
    )
    licence: str | None = Field(
        default=None, min_length=1, description="Of the target, where our catalogue has it not."
    )


class Recipe(_Section):
    """The whole file."""

    name: str = Field(min_length=1, description="Names the run's folder and the head.")
    seed: int = Field(default=0, ge=0, description="Decides every draw that is ours.")
    engine: EngineSettings = Field(description="The target, as in a profile.")
    folder: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        default=Path("~/.cache/specgate/training"),
        validate_default=True,
        description="Runs live in subfolders of their recipe's name.",
    )
    text: TextSettings = Field(description="Step 1: text that the target writes.")
    hidden: HiddenSettings = Field(default_factory=HiddenSettings, description="Step 2.")
    head: Annotated[HeadConfig, BeforeValidator(_complete_head)] = Field(
        description="The head's shape: the fields of `engine.heads.HeadConfig` that do not follow "
        "from the target."
    )
    train: TrainSettings = Field(description="Step 3.")
    export: ExportSettings = Field(default_factory=ExportSettings, description="Step 5.")

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        weights = self.train.position_weights
        if weights is not None and len(weights) != self.head.positions:
            raise ValueError("train.position_weights: give one for each of head.positions")
        return self

    @property
    def run_folder(self) -> Path:
        """Where everything of this recipe lies."""
        return self.folder / self.name

    @property
    def head_folder(self) -> Path:
        """Where its head lies in the end."""
        return self.run_folder / HEAD_FOLDER

    @property
    def first_head(self) -> Path | None:
        """Where the head lies that training starts from."""
        name = self.train.start_from
        return None if name is None else self.folder / name / HEAD_FOLDER

    @property
    def prompt_rows(self) -> int:
        """Most tokens of a prompt that have states."""
        most = self.hidden.max_prompt_tokens
        return self.head.window if most is None else most

    def card(self) -> dict[str, Any]:
        """Return what the file says, without the places of this machine."""
        said = self.model_dump(mode="json", exclude={"folder"}, exclude_unset=True)
        for place in ("cache_dir", "host", "port", "uds"):
            said["engine"].pop(place, None)
        for fact in _FROM_TARGET:
            del said["head"][fact]
        return said


def load_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        RecipeError: The file cannot be read, or a name or a value in it is wrong.
    """
    try:
        document: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise RecipeError([f"{path}: cannot be read: {exc}"]) from exc
    try:
        return Recipe.model_validate(_in_cache(document))
    except ValidationError as exc:
        raise RecipeError(
            [
                f"{path}: {'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
                for error in exc.errors()
            ]
        ) from exc


def load_recipes(path: Path) -> list[Recipe]:
    """Read a recipe and those that must be carried out before it, in that order.

    A recipe that another one starts from is looked for beside it and left out where it is not
    there: its head may be, all the same.

    Raises:
        RecipeError: As `load_recipe`, or a recipe starts from itself.
    """
    found = [load_recipe(path)]
    names = [found[0].name]
    while (first := found[0].train.start_from) is not None:
        if first in names:
            raise RecipeError([f"{path}: train.start_from: {first} starts from itself"])
        path = path.with_name(f"{first}.yaml")
        if not path.is_file():
            break
        found.insert(0, load_recipe(path))
        names.append(first)
    return found


def _in_cache(document: Any) -> Any:
    """Fill in where things are kept, if this user's caches lie elsewhere than usual."""
    root = process_environment().get("XDG_CACHE_HOME")
    if not root or not isinstance(document, dict) or not isinstance(document.get("engine"), dict):
        return document
    engine = {"cache_dir": f"{root}/specgate", **document["engine"]}
    return {"folder": f"{root}/specgate/training", **document, "engine": engine}
