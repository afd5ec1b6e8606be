"""What is compared: the settings of both sides, how often, and how much."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.rounds import Json

ARCTIC_REQUIREMENTS = ("--no-deps", "arctic-inference==0.3.0", "numpy")
SALT = 20_240_607
PROMPT_TOKENS = 32_768
ROWS = 64


@dataclass(frozen=True, slots=True)
class OurSetting:
    """A setting of our index.

    Attributes:
        max_tokens: Longest draft.
        min_survival: A draft ends before the first token that survives less often.
    """

    max_tokens: int
    min_survival: float
    capacity_bytes: int = 1 << 30
    salt: int = SALT

    def as_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ArcticSetting:
    """A setting of the peer.

    Attributes:
        depth: `max_tree_depth`, which is also the longest pattern.
        cap: `max_spec_tokens`.
        factor: `max_spec_factor`: drafted tokens a matched one.
        min_probability: `min_token_prob`.
    """

    depth: int
    cap: int
    factor: float
    min_probability: float
    cached_requests: int = 10_000

    def as_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured.

    Attributes:
        set_tokens: Bound on the tokens of a data set, prompts included.
        grid: Settings of the peer among which its best is found, set by set.
        survivals: By length of draft, the thresholds of ours that are swept.
        scale_sizes: Indexed tokens.
        scale_capacity_bytes: Bound of the index at scale: what 100 M tokens must fit in.
        hostile_every: Steps between two drafts on a hostile text.
    """

    rounds: int
    memory_rounds: int
    set_tokens: int
    grid: Sequence[ArcticSetting]
    survivals: dict[int, Sequence[float]]
    scale_sizes: Sequence[int]
    scale_rounds: int
    hostile_tokens: int
    hostile_repeats: int
    hostile_every: int
    scale_capacity_bytes: int = 3_000_000_000


VLLM_DEFAULT = ArcticSetting(24, 24, 1.0, 0.1)
OUR_DEFAULT = OurSetting(24, 0.1)
OUR_LONG = OurSetting(64, 0.06)
OUR_DEFAULT_LONG = OurSetting(64, 0.1)

FULL = Plan(
    rounds=7,
    memory_rounds=3,
    set_tokens=2_000_000,
    grid=(
        ArcticSetting(64, 64, 1.0, 0.1),
        ArcticSetting(64, 64, 2.0, 0.1),
        ArcticSetting(64, 64, 4.0, 0.1),
        ArcticSetting(64, 64, 8.0, 0.1),
        ArcticSetting(64, 64, 4.0, 0.02),
    ),
    survivals={
        24: (0.03, 0.06, 0.1, 0.125, 0.15, 0.175, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5),
        64: (0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3),
    },
    scale_sizes=(1_000_000, 10_000_000, 100_000_000),
    scale_rounds=5,
    hostile_tokens=100_000,
    hostile_repeats=5,
    hostile_every=4,
)
QUICK = Plan(
    rounds=2,
    memory_rounds=1,
    set_tokens=1_200_000,
    grid=(
        ArcticSetting(64, 64, 1.0, 0.1),
        ArcticSetting(64, 64, 4.0, 0.1),
    ),
    survivals={24: (0.1, 0.15, 0.2, 0.3, 0.4, 0.5), 64: (0.01, 0.03, 0.06, 0.1)},
    scale_sizes=(1_000_000, 10_000_000),
    scale_rounds=3,
    hostile_tokens=100_000,
    hostile_repeats=3,
    hostile_every=8,
)
