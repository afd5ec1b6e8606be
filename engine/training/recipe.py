"""Training recipes: everything that determines a training run, in one YAML file."""

from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

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

# Fields of a head's configuration that follow from the target, or that we set.
_FROM_TARGET = ("hidden_size", "vocab_size")
_NOT_IN_RECIPES = frozenset({*_FROM_TARGET, "card", "format", "tokenizer_sha256", "version"})


def _complete_head(shape: object) -> object:
    """Add placeholders for the target's sizes, so the shape can be checked without the target."""
    if not isinstance(shape, dict):
        return shape
    if reserved := sorted(_NOT_IN_RECIPES & shape.keys()):
        raise ValueError(f"not allowed in a recipe: {', '.join(reserved)}")
    # A Medusa head is as wide as its target. For the others 1 stays, which is part of runs' marks.
    width = shape.get("inner_size", 1) if shape.get("kind") == "medusa" else 1
    return {**shape, "hidden_size": width, "vocab_size": 1 << 31}


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prompts(_Section):
    """One kind of prompts. The target continues an opening and so writes the user's turn.

    With an empty opening this is the method of arXiv 2406.08464 (Magpie).
    """

    kind: str = Field(min_length=1, description="Name in reports.")
    weight: float = Field(gt=0, description="Share of the documents, relative to other kinds.")
    openings: tuple[str, ...] = Field(
        default=("",), min_length=1, description="Beginnings of the user's turn."
    )
    endings: tuple[str, ...] = Field(
        default=("",), min_length=1, description="Texts appended to the written turn."
    )


class DataSettings(_Section):
    """Step 1: your own data (`engine.training.data` has the formats)."""

    files: tuple[Path, ...] = Field(
        min_length=1,
        description="JSON Lines with conversations, prompts or texts, or plain texts; relative to "
        "the recipe.",
    )
    max_tokens: int = Field(
        default=2048, ge=16, description="Longest document, prompt included, in tokens."
    )


class TextSettings(_Section):
    """Step 1: the target writes prompts and answers them."""

    tokens: int = Field(default=0, ge=0, description="Number of answer tokens to write.")
    prompts: tuple[Prompts, ...] = Field(default=(), description="Kinds of prompts.")
    prompt_temperature: float = Field(default=1.0, ge=0, description="Temperature of prompts.")
    answer_temperatures: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(1.0,), min_length=1, description="Temperatures of answers, in equal shares."
    )
    max_prompt_tokens: int = Field(default=256, ge=1, description="Longer prompts are dropped.")
    max_answer_tokens: int = Field(default=512, ge=1, description="Longer answers are cut.")
    concurrency: int = Field(default=64, ge=1, description="Documents written concurrently.")
    held_out_every: int = Field(
        default=50, ge=2, description="One document in this many is used for evaluation only."
    )


class HiddenSettings(_Section):
    """Step 2: the target's hidden states for the text that it wrote."""

    store: bool = Field(
        default=True,
        description="Store them in files (one bfloat16 state per token); else they are computed "
        "again in each epoch.",
    )
    batch_tokens: int = Field(default=4096, ge=1, description="Tokens per forward pass.")
    max_prompt_tokens: int | None = Field(
        default=None,
        ge=0,
        description="Number of a prompt's last tokens that also get states; null for the head's "
        "window.",
    )
    shard_tokens: int = Field(
        default=32768, ge=1, description="Tokens per shard; a killed run loses one shard."
    )
    window_shards: int = Field(
        default=16, ge=1, description="Shards within which rows are shuffled if not stored."
    )


class TrainSettings(_Section):
    """Step 3: training."""

    start_from: str | None = Field(
        default=None,
        min_length=1,
        description="Name of a recipe whose head has the same shape: training starts from its "
        "weights and vocabulary.",
    )
    steps: int = Field(ge=1, description="Optimizer steps.")
    batch_tokens: int = Field(
        default=8192, ge=1, description="Positions per step, over all processes."
    )
    micro_batch_tokens: int = Field(
        default=2048, ge=1, description="Positions computed at once; halved if memory runs out."
    )
    run_tokens: int = Field(
        default=32, ge=1, description="Consecutive positions that are drawn as a unit."
    )
    learning_rate: float = Field(default=1e-3, gt=0, description="Peak of the cosine schedule.")
    warmup_ratio: float = Field(default=0.05, ge=0, lt=1, description="Warm-up's share of steps.")
    final_ratio: float = Field(default=0.0, ge=0, le=1, description="Final rate over the peak.")
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="AdamW's betas.")
    weight_decay: float = Field(default=0.1, ge=0, description="For matrices; norms have none.")
    clip_norm: float = Field(default=1.0, gt=0, description="Maximum norm of the gradient.")
    position_weights: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        default=None, description="Weight of the loss at each position; null for 1 each."
    )
    distillation_ratio: float = Field(
        default=0.0, ge=0, le=1, description="Share of the soft loss (the target's distribution)."
    )
    distillation_temperature: float = Field(
        default=1.0,
        gt=0,
        description="Temperature of the target's distribution in the soft loss; below 1 gives more "
        "weight to its most likely token, which a greedy draft has to match.",
    )
    prompt_weight: float = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Weight of prompt tokens in the soft loss, relative to answer tokens.",
    )
    bfloat16: bool | None = Field(
        default=None,
        description="Multiply in bfloat16 (autocast); by default if the processor supports it.",
    )
    checkpoint_every_s: float = Field(default=60.0, gt=0, description="Seconds per checkpoint.")
    checkpoint_every_steps: int = Field(default=500, ge=1, description="Steps per checkpoint.")
    log_every_steps: int = Field(default=20, ge=1, description="Steps per line of train.csv.")
    evaluate_every_steps: int = Field(
        default=500, ge=1, description="Steps per line of evaluate.csv."
    )
    evaluate_tokens: int = Field(
        default=10_000, ge=1, description="Held-out tokens of these evaluations."
    )


class ExportSettings(_Section):
    """Step 5: export."""

    most_mb: float | None = Field(
        default=None, gt=0, description="Maximum size of the head's file in MB (10^6 bytes)."
    )
    window: int | None = Field(
        default=None,
        ge=1,
        description="Window of the exported head, in text positions; null for that of training.",
    )
    licence: str | None = Field(
        default=None, min_length=1, description="Licence of a target outside of our catalogue."
    )


class RecipeBase(_Section):
    """What all kinds of heads have in common."""

    name: str = Field(min_length=1, description="Name of the run's folder and of the head.")
    seed: int = Field(default=0, ge=0, description="Seed of all our random draws.")
    engine: EngineSettings = Field(description="The target, as in a profile.")
    folder: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        default=Path("~/.cache/specgate/training"),
        validate_default=True,
        description="Folder of all runs; each has a subfolder with its recipe's name.",
    )
    data: DataSettings | None = Field(
        default=None, description="Step 1: your own data, beside or instead of `text`."
    )
    text: TextSettings = Field(
        default_factory=TextSettings, description="Step 1: text that the target writes."
    )
    export: ExportSettings = Field(default_factory=ExportSettings, description="Step 5: export.")

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if (self.text.tokens > 0) != bool(self.text.prompts):
            raise ValueError("text.tokens and text.prompts require each other")
        if self.data is None and not self.text.tokens:
            raise ValueError("there is nothing to learn from: set text or data")
        return self

    def beside(self, folder: Path) -> Self:
        """Return it with the paths of its data, which are relative to this folder."""
        if self.data is None:
            return self
        files = tuple(folder / path.expanduser() for path in self.data.files)
        return self.model_copy(update={"data": self.data.model_copy(update={"files": files})})

    @property
    def run_folder(self) -> Path:
        """Folder of everything that belongs to this recipe."""
        return self.folder / self.name

    @property
    def head_folder(self) -> Path:
        """Folder of the finished head."""
        return self.run_folder / HEAD_FOLDER


class Recipe(RecipeBase):
    """A whole recipe file, for a head without a KV cache."""

    hidden: HiddenSettings = Field(
        default_factory=HiddenSettings, description="Step 2: hidden states."
    )
    head: Annotated[HeadConfig, BeforeValidator(_complete_head)] = Field(
        description="The head's shape: the fields of `engine.heads.HeadConfig` that do not follow "
        "from the target."
    )
    train: TrainSettings = Field(description="Step 3: training.")

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        weights = self.train.position_weights
        if weights is not None and len(weights) != self.head.positions:
            raise ValueError("train.position_weights: expected one for each of head.positions")
        return self

    @property
    def first_head(self) -> Path | None:
        """Folder of the head that training starts from."""
        name = self.train.start_from
        return None if name is None else self.folder / name / HEAD_FOLDER

    @property
    def prompt_rows(self) -> int:
        """Maximum number of a prompt's tokens that have states."""
        most = self.hidden.max_prompt_tokens
        return self.head.window if most is None else most

    def card(self) -> dict[str, Any]:
        """Return the content of the file, without paths and addresses of this machine."""
        said = self.model_dump(mode="json", exclude={"folder"}, exclude_unset=True)
        for field in ("cache_dir", "host", "port", "uds"):
            said["engine"].pop(field, None)
        for fact in _FROM_TARGET:
            del said["head"][fact]
        if self.data is not None:
            said["data"]["files"] = [path.name for path in self.data.files]
        return said


def load_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Raises:
        RecipeError: The file cannot be read, or it has an unknown name or invalid value.
    """
    return validate(Recipe, read_document(path), path)


def read_document(path: Path) -> Any:
    """Read a recipe's YAML.

    Raises:
        RecipeError: The file cannot be read.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise RecipeError([f"{path}: cannot be read: {exc}"]) from exc


_Checked = TypeVar("_Checked", bound=RecipeBase)


def validate(kind: type[_Checked], document: Any, path: Path) -> _Checked:
    """Check a recipe's content.

    Raises:
        RecipeError: It has an unknown name or invalid value; `path` is named.
    """
    try:
        return kind.model_validate(_in_cache(document)).beside(path.parent)
    except ValidationError as exc:
        raise RecipeError(
            [
                f"{path}: {'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
                for error in exc.errors()
            ]
        ) from exc


def load_recipes(path: Path) -> list[Recipe]:
    """Read a recipe and the recipes that it builds on, in the order of training.

    The recipe that another starts from is expected beside it; if it is missing there, it is left
    out, since its head may exist.

    Raises:
        RecipeError: As `load_recipe`, or recipes start from each other in a cycle.
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
    """Move the default folders if this user's cache is not in the usual place."""
    root = process_environment().get("XDG_CACHE_HOME")
    if not root or not isinstance(document, dict) or not isinstance(document.get("engine"), dict):
        return document
    engine = {"cache_dir": f"{root}/specgate", **document["engine"]}
    return {"folder": f"{root}/specgate/training", **document, "engine": engine}
