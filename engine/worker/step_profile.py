"""Measures how long steps of various sizes take, before the model serves.

The gate starts from this profile (docs/adr/0020). It is measured once per model and machine and
kept in a file; one measured on a busy machine is used but not kept. The steps have no context and
no scheduling, whose cost the gate learns later.
"""

import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from vllm import __version__ as vllm_version
from vllm.distributed.parallel_state import get_tp_group

from engine.policy import check_profile
from engine.processor import describe_processor
from engine.worker.linear import linear_kernel

_log = logging.getLogger(__name__)

Points = tuple[tuple[int, float], ...]
"""(tokens, seconds)."""

_SECONDS = 10.0
"""Time limit of measuring at start; SmolLM2 on two cores takes 3 s."""
_ROUNDS = 3
_STEADY_RATIO = 1.25
_POINTS = TypeAdapter(Points)


def profile_steps(runner: Any) -> None:
    """Give the gate the times of steps: configured, known for this machine, or measured now.

    All ranks compute the same steps, and the drafting rank decides whether to; ranks that
    disagreed would wait for each other forever. For the same reason several ranks apply no time
    limit, and data-parallel engines, which compute together, do not profile.

    Args:
        runner: One of `engine.worker.v1` or `v2`, warmed up.
    """
    ours = runner.vllm_config.additional_config["specgate"]
    alone = runner.vllm_config.parallel_config.data_parallel_size == 1
    if ours["speculation"]["step_cost"] is not None or not alone:
        return
    longest = 1 + runner.vllm_config.num_speculative_tokens
    most = min(runner.max_num_reqs * longest, runner.max_num_tokens)
    edges = padded_sizes(runner.vllm_config)
    facts = {**facts_of(runner, most), "largest_graph": max(edges, default=0)}
    file = ProfileFile(Path(ours["profiles"]), facts)
    known = file.load() if runner.speculation is not None else None
    points = get_tp_group().broadcast_object(known, src=0)
    if points is None:
        limit = _SECONDS if get_tp_group().world_size == 1 else math.inf
        measured = measure(runner.run_empty_step, sizes_up_to(most, edges), budget_seconds=limit)
        points = measured.points
        if runner.speculation is not None and measured.is_steady:
            file.save(points)
    if runner.speculation is not None:
        runner.speculation.believe(points)


def facts_of(runner: Any, most_tokens: int) -> dict[str, str | int]:
    """Return what the times of a runner's steps depend on."""
    model, kind = runner.model_config, runner.device.type
    return {
        "model": str(model.model),
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "ranks": runner.vllm_config.parallel_config.world_size,
        "eager": int(model.enforce_eager),
        "most_tokens": most_tokens,
        "most_rows": runner.most_rows,
        "vllm": str(vllm_version),
        "kernel": linear_kernel(model.dtype),
        "machine": describe_processor(),
        "device": torch.cuda.get_device_name(runner.device) if kind == "cuda" else kind,
        "threads": torch.get_num_threads(),
    }


def padded_sizes(vllm_config: Any) -> list[int]:
    """Return the numbers of tokens to which vLLM pads steps (captured CUDA graphs), rising."""
    return sorted(vllm_config.compilation_config.cudagraph_capture_sizes or ())


def sizes_up_to(most: int, edges: Sequence[int]) -> list[int]:
    """Return the sizes to measure: two per octave, and `most` as the last.

    And one behind the last of the sizes to which steps are padded: larger steps run without graphs.
    """
    sizes = {most, 1, *(edge + 1 for edge in edges[-1:] if edge < most)}
    size = 2
    while size < most:
        sizes |= {size, min(most, size * 3 // 2)}
        size *= 2
    return sorted(sizes)


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured profile.

    Attributes:
        points: Step times.
        is_steady: Whether the rounds agree, so the machine was idle and the profile worth keeping.
    """

    points: Points
    is_steady: bool


def measure(
    run: Callable[[int], None],
    sizes: Sequence[int],
    *,
    budget_seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Time steps of some sizes, smallest first, in three rounds; the fastest of each size counts.

    Args:
        run: Computes a step of this many tokens and waits for its end.
        sizes: Numbers of tokens, rising.
        budget_seconds: No further size or round begins after this time.
        clock: Returns seconds.

    Returns:
        A profile that never falls. Other load on the machine only makes a step slower, so a size
        that took longer than a larger one gets the larger one's time.
    """
    times: list[list[float]] = []
    end = clock() + budget_seconds

    def took(size: int) -> float:
        began = clock()
        run(size)
        return clock() - began

    run(sizes[0])  # warm-up: the first step of a process also initialises
    for size in sizes:
        if times and clock() > end:
            break
        times.append([took(size)])
    for _ in range(1, _ROUNDS):
        if clock() > end:
            break
        for size, found in zip(sizes, times, strict=False):
            found.append(took(size))
    best = [min(found) for found in times]
    rising = reversed(list(accumulate(reversed(best), min)))
    return Measured(tuple(zip(sizes, rising, strict=False)), _agree(times))


def _agree(times: Sequence[Sequence[float]]) -> bool:
    """Whether the two fastest times of a size are mostly about the same."""
    if len(times[0]) < 2:
        return False
    return median(sorted(found)[1] / min(found) for found in times) <= _STEADY_RATIO


class ProfileFile:
    """The file that keeps the profile of one model on one machine.

    Args:
        folder: Folder of all profiles.
        facts: What the profile depends on; other facts use another file.
    """

    def __init__(self, folder: Path, facts: Mapping[str, str | int]) -> None:
        self._facts = dict(facts)
        name = sha256(json.dumps(self._facts, sort_keys=True).encode()).hexdigest()[:16]
        self._path = folder / f"{name}.json"

    def load(self) -> Points | None:
        """Return the saved profile; None if there is no readable one."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            if found["facts"] != self._facts:
                return None
            points = _POINTS.validate_python(found["points"])
            check_profile(points)
            return points
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as exc:
            _log.warning("step times are measured again: %s", exc)
            return None

    def save(self, points: Points) -> None:
        """Save a profile.

        Raises:
            OSError: The file cannot be written.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        beside = self._path.with_suffix(".new")
        beside.write_text(json.dumps({"facts": self._facts, "points": points}), encoding="utf-8")
        beside.replace(self._path)
