"""Which settings are compared, and on how many prompts."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from gateway.verify import Prompt

Dtype = Literal["bfloat16", "float32"]
Kernels = Literal["ours", "vllm"]
Peer = Literal["ngram", "arctic_suffix"]
Drafter = Literal["none", "specgate"] | Peer

DTYPES: Sequence[Dtype] = ("bfloat16", "float32")
KERNELS: Sequence[Kernels] = ("ours", "vllm")
PEERS: Sequence[Peer] = ("ngram", "arctic_suffix")
CROWD = 16
"""Clients of a setting in company: each prompt is among 15 others."""

STEP_TOKENS = 30
"""`max_num_batched_tokens` where prompts are cut: longer ones take several steps."""

BLOCK_TOKENS = 32
"""Of the prefix cache. vLLM's default on CPUs, 128, would find few prompts again."""

_SOME, _FEW = 5, 7
"""Every so-manieth prompt of a kind is asked in settings that show less. Odd: recorded and made-up
prompts take turns."""

MODES = {"hybrid": "auto", "suffix": "suffix", "head": "head"}
"""Sources of a specgate, as `specgate_mode` of a request."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What a worker is started with.

    Attributes:
        dtype: Of the model.
        kernels: Whose compute layers and attention.
        drafter: `none` cannot draft; `specgate` has the sources of the profile; the others are
            vLLM's own n-grams, and Arctic's suffix decoding through vLLM.
        cuts: Whether a step has so few tokens that prompts are cut.
    """

    dtype: Dtype
    kernels: Kernels
    drafter: Drafter
    cuts: bool = False

    @property
    def name(self) -> str:
        cut = "-cut" if self.cuts else ""
        return f"{self.dtype}-{self.kernels}-{self.drafter}{cut}"


@dataclass(frozen=True, slots=True)
class Pass:
    """Prompts that a worker is asked one way.

    Each is asked twice in a row, so that the prefix cache misses and then hits. That makes two
    settings of a pass. The reference is asked once.

    Attributes:
        serving: The worker.
        source: Who drafts: one of `MODES`, the worker's drafter, or `none` for the reference.
        clients: Prompts at once.
        every: Only every so-manieth prompt of each kind.
    """

    serving: Serving
    source: str
    clients: int
    every: int = 1

    @property
    def is_reference(self) -> bool:
        return self.source == "none"

    @property
    def name(self) -> str:
        """Names its file."""
        return f"{self.serving.name}-{self.source}-{self.clients}"

    @property
    def settings(self) -> Sequence[str]:
        """Name the setting of each asking."""
        serving = self.serving
        company = "alone" if self.clients == 1 else f"{self.clients} at once"
        kernels = "our kernels" if serving.kernels == "ours" else "vLLM's kernels"
        parts = [serving.dtype, kernels, self.source, company]
        cut = ["cut"] if serving.cuts else []
        return [", ".join([*parts, cache, *cut]) for cache in ("miss", "hit")]


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of a run.

    Attributes:
        each: Prompts of each kind.
        answer_tokens: `max_tokens`, of most kinds.
        passes: In their order; those of a worker follow one another.
        seconds: After this time no pass is begun.
    """

    each: int
    answer_tokens: int
    passes: Sequence[Pass]
    seconds: float = math.inf


def reference_of(one: Pass) -> Pass:
    """Return the pass that another one is compared with."""
    return Pass(Serving(one.serving.dtype, one.serving.kernels, "none"), "none", 1)


def chosen(prompts: Sequence[Prompt], every: int) -> Sequence[Prompt]:
    """Return every so-manieth prompt of each kind."""
    seen: Counter[str] = Counter()
    taken = []
    for prompt in prompts:
        if seen[prompt.kind] % every == 0:
            taken.append(prompt)
        seen[prompt.kind] += 1
    return taken


def _ours(dtype: Dtype) -> Iterator[Pass]:
    """Our sources on our kernels."""
    yield Pass(Serving(dtype, "ours", "none"), "none", 1)
    whole, cut = (Serving(dtype, "ours", "specgate", cuts) for cuts in (False, True))
    for source in MODES:
        yield Pass(whole, source, CROWD)
    for source in MODES:
        yield Pass(whole, source, 1, every=1 if source == "hybrid" else _SOME)
    for source in MODES:
        yield Pass(cut, source, CROWD, every=1 if source == "hybrid" else _SOME)
    yield Pass(cut, "hybrid", 1, every=_SOME)


def _others(dtype: Dtype, kernels: Kernels) -> Iterator[Pass]:
    """Peers; and on vLLM's kernels hybrid as well."""
    drafters: dict[Drafter, str] = {peer: peer for peer in PEERS}
    if kernels == "vllm":
        yield Pass(Serving(dtype, kernels, "none"), "none", 1, every=_FEW)
        drafters = {"specgate": "hybrid", **drafters}
    for drafter, source in drafters.items():
        for clients in (CROWD, 1):
            yield Pass(Serving(dtype, kernels, drafter), source, clients, every=_FEW)


def _quick(dtype: Dtype) -> Iterator[Pass]:
    yield Pass(Serving(dtype, "ours", "none"), "none", 1)
    for source in MODES:
        yield Pass(Serving(dtype, "ours", "specgate"), source, CROWD)


FULL = Plan(
    each=84,
    answer_tokens=32,
    passes=[
        *(one for dtype in DTYPES for one in _ours(dtype)),
        *(one for dtype in DTYPES for kernels in KERNELS for one in _others(dtype, kernels)),
    ],
)
"""1,008 prompts: some six hours on two cores. With `--each 12`, 144 prompts, it was 50 minutes."""
QUICK = Plan(
    each=2,
    answer_tokens=24,
    passes=[
        *_quick("bfloat16"),
        Pass(Serving("bfloat16", "ours", "specgate", cuts=True), "hybrid", CROWD),
        *_quick("float32"),
    ],
    seconds=120.0,
)
