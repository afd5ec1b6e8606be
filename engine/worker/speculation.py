"""Everything of ours that lives in the model worker: built from the settings, ended with it."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.config import Speculation
from engine.drafting import Drafter, SuffixSource
from engine.policy import Price, StepCost
from engine.suffix import SuffixIndex
from engine.worker.metrics import DraftingMetrics
from engine.worker.periodic import Periodic
from engine.worker.snapshots import Snapshots


def read_settings(vllm_config: Any) -> Speculation:
    """Return what `engine.worker.options` put into vLLM's `additional_config`."""
    return Speculation.model_validate(vllm_config.additional_config["specgate"]["speculation"])


def head_time(settings: Speculation, *, most_rows: int) -> Callable[[int], float]:
    """Return what a pass of the head over so many rows takes, in steps of one token."""
    points = settings.head.pass_cost
    unit = points[0][1] / settings.step_cost[0][1]
    curve = StepCost(points, longest=most_rows)
    return lambda rows: unit * curve.time(rows)


class RankSpeculation:
    """The drafter of the rank whose drafts count, with its metrics and snapshots."""

    def __init__(self, settings: Speculation, *, most_rows: int, snapshot: Path | None) -> None:
        most = settings.max_draft_tokens
        cost = StepCost(settings.step_cost, longest=most_rows * (1 + most))
        self._index = None
        if "suffix" in settings.sources:
            self._index = SuffixIndex(settings.suffix.capacity_mb << 20)
        self.has_native = "native" in settings.sources
        self.head_most = settings.head.max_draft_tokens if "head" in settings.sources else 0
        self.drafter = Drafter(
            None if self._index is None else SuffixSource(self._index),
            Price(cost),
            most=most,
            native_most=0 if settings.native is None else settings.native.most,
            head_most=self.head_most,
            head_time=head_time(settings, most_rows=most_rows),
        )
        self._sources = settings.sources
        self._metrics = DraftingMetrics()
        self._threads = [Periodic(self._publish, seconds=1.0, name="drafting metrics")]
        if self._index is not None and snapshot is not None:
            snapshots = Snapshots(self._index, snapshot)
            snapshots.load()
            seconds = settings.suffix.save_every_s
            self._threads.append(Periodic(snapshots.save, seconds=seconds, name="suffix snapshot"))

    @classmethod
    def start(cls, vllm_config: Any) -> "RankSpeculation":
        """Build it for this process of vLLM."""
        # What the engine's rooms log in this process goes where vLLM's lines go.
        logging.getLogger("engine").parent = logging.getLogger("vllm")
        rank = vllm_config.parallel_config.data_parallel_rank
        snapshot = vllm_config.additional_config["specgate"]["snapshot"]
        return cls(
            read_settings(vllm_config),
            most_rows=vllm_config.scheduler_config.max_num_seqs,
            # Each data-parallel rank has an index of its own.
            snapshot=None if snapshot is None else Path(f"{snapshot}.{rank}"),
        )

    def observe_step(self, *, target: float, draft: float, draft_cpu: float, head: float) -> None:
        """Record a step's times, in seconds; `head` is 0 where the head did not run."""
        self._metrics.observe_step(target=target, draft=draft, draft_cpu=draft_cpu, head=head)

    def stop(self) -> None:
        """Keep what running requests wrote, save, and publish the last figures."""
        self.drafter.end(list(self.drafter.running), keep=True)
        for thread in self._threads:
            thread.stop()

    def _publish(self) -> None:
        index = None if self._index is None else self._index.stats()
        self._metrics.publish(self.drafter.counters, index, self._sources)
