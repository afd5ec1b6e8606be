"""The speculation of one model worker: its drafter, metrics, report and snapshots."""

import hashlib
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from engine.config import Speculation
from engine.drafting import DECISIONS, Control, Drafter
from engine.heads import SharedTables, read_head_config
from engine.policy import Gate, Launch
from engine.suffix import SuffixIndex
from engine.worker.adaptation import Adaptation
from engine.worker.head import find_tables, gather_tables, warm_up
from engine.worker.head_loader import HeadLoader, HeadSource
from engine.worker.metrics import VERIFYING_SIZES, DraftingMetrics, HeadMetrics, SamplingMetrics
from engine.worker.periodic import Periodic
from engine.worker.recent import Recent
from engine.worker.report import ReportPart, report_folder
from engine.worker.share import Share
from engine.worker.snapshots import Snapshots, identity_of
from engine.worker.step import BatchView, StepDrafting
from engine.worker.step_profile import Points, padded_sizes
from engine.worker.uniform import UniformTest

_DEFAULT_STEP_COST = ((1, 1.0), (8, 1.2), (32, 2.5), (128, 7.5))
"""Step time on an unknown machine, by number of tokens, relative to a step of one token."""


def read_settings(vllm_config: Any) -> Speculation:
    """Return the settings that `engine.worker.options` put into vLLM's `additional_config`."""
    return Speculation.model_validate(vllm_config.additional_config["specgate"]["speculation"])


def build_gate(settings: Speculation, *, most_rows: int, edges: Sequence[int]) -> Gate:
    """Return the gate that the settings describe.

    Args:
        settings: Costs, if they are known, and limits.
        most_rows: Most sequences of a step.
        edges: Numbers of tokens to which vLLM pads steps, rising.
    """
    return Gate(
        settings.step_cost or _DEFAULT_STEP_COST,
        settings.head.pass_cost,
        most_sequences=most_rows,
        longest_draft=settings.max_draft_tokens,
        edges=edges,
        max_batch_size=settings.max_batch_size,
    )


def _share_of(settings: Speculation, path: Path, identity: str) -> Share | None:
    """Return where the workers of the model share snapshots, if they do.

    A worker is known by its host and the path of its own file.
    """
    if settings.suffix.share is None:
        return None
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    return Share(settings.suffix.share, identity, f"{socket.gethostname()}-{digest}")


def curve_in_ms(points: Sequence[tuple[float, float]]) -> JsonValue:
    """Return `[[tokens or sequences, milliseconds], ...]`."""
    return [[int(at), round(1000 * seconds, 3)] for at, seconds in points]


class RankSpeculation:
    """The drafter of the rank that drafts, with its heads, metrics, report and snapshots.

    Attributes:
        drafter: Decides what each request drafts.
        step: Our part of the runner's steps.
        has_native: Whether vLLM's own drafter is a source.
        sampling: Whether sampled tokens are what the target would sample.
    """

    def __init__(
        self,
        settings: Speculation,
        batch: BatchView,
        report: Callable[[str], ReportPart],
        *,
        most_rows: int,
        edges: Sequence[int],
        vocabulary: int,
        snapshot: tuple[Path, str] | None,
        is_async: bool = False,
        adapt: Callable[[Callable[[str], Control]], Adaptation] | None = None,
    ) -> None:
        most = settings.max_draft_tokens
        self._index = None
        if "suffix" in settings.sources:
            capacity = settings.suffix.capacity_mb << 20
            self._index = SuffixIndex(capacity, vocabulary=vocabulary)
        self.has_native = "native" in settings.sources
        head_most = settings.head.max_draft_tokens if "head" in settings.sources else 0
        self.drafter = Drafter(
            self._index,
            build_gate(settings, most_rows=most_rows, edges=edges),
            most=most,
            native_most=0 if settings.native is None else settings.native.most,
            head_most=head_most,
            fixed_price=settings.fixed_price,
        )
        self._sources = settings.sources
        self._max_batch_size = settings.max_batch_size
        self._recent = Recent[str]()
        self._metrics = DraftingMetrics()
        self._head_metrics = HeadMetrics()
        launch = Launch(settings.launch) if is_async else None
        self.step = StepDrafting(self.drafter, self._metrics, batch, launch=launch)
        self._watch = settings.head.watch
        self._adaptation: Adaptation | None = None
        if adapt is not None:
            self._adaptation = adapt(self.step.control)
            self._watch = self._adaptation.watched
        self.sampling = UniformTest()
        self._sampling_metrics, self._sampling_report = SamplingMetrics(), report("sampling")
        self._loader: HeadLoader | None = None
        self._source: HeadSource | None = None
        self._report, self._heads_report = report("gate"), report("heads")
        self._threads = [Periodic(self._publish, seconds=1.0, name="drafting metrics")]
        if self._index is not None and snapshot is not None:
            snapshots = Snapshots(self._index, *snapshot, _share_of(settings, *snapshot))
            snapshots.load()
            seconds = settings.suffix.save_every_s
            self._threads.append(Periodic(snapshots.save, seconds=seconds, name="suffix snapshot"))
            if settings.suffix.share is not None:
                self._threads.append(
                    Periodic(
                        snapshots.share,
                        seconds=settings.suffix.share_every_s,
                        name="shared suffix snapshots",
                        first=snapshots.load_shared,
                    )
                )

    @classmethod
    def start(cls, vllm_config: Any, batch: BatchView) -> "RankSpeculation":
        """Build it for the runner of this vLLM process."""
        rank = vllm_config.parallel_config.data_parallel_index
        path = vllm_config.additional_config["specgate"]["snapshot"]
        model = vllm_config.model_config
        # Each data-parallel rank has its own index.
        snapshot = None if path is None else (Path(f"{path}.{rank}"), identity_of(model))

        def report(part: str) -> ReportPart:
            return ReportPart(report_folder(), part, rank)

        settings = read_settings(vllm_config)
        adapting = settings.head.adapt
        adapt = None
        if adapting is not None:
            adapt = partial(
                Adaptation,
                adapting,
                rank=rank,
                ranks=vllm_config.parallel_config.data_parallel_size,
                target=identity_of(model),
                report=report("adapt"),
            )
        return cls(
            settings,
            batch,
            report,
            most_rows=vllm_config.scheduler_config.max_num_seqs,
            edges=padded_sizes(vllm_config),
            vocabulary=model.get_vocab_size(),
            snapshot=snapshot,
            is_async=bool(vllm_config.scheduler_config.async_scheduling),
            adapt=adapt,
        )

    def take_heads(self, source: HeadSource, folder: Path | None) -> None:
        """Load the head of the settings, if there is one; later ones come from the same source."""
        heads, adaptation = self.step.heads, self._adaptation
        self._loader = HeadLoader(
            source,
            heads,
            commands=report_folder(),
            watch=self._watch,
            delete_traffic=None if adaptation is None else adaptation.delete,
        )
        self._source = source
        if folder is not None:
            heads.start(source.load(folder))

    def warm_up_head(self, *, rows: int) -> None:
        """Prepare the draft head, if there is one, for its first pass in service.

        Args:
            rows: Most sequences of a pass.
        """
        serving = self.step.heads.serving
        if serving is not None:
            warm_up(serving.head, serving.most, rows=rows, memory=serving.memory)

    def listen(self) -> None:
        """Take other heads from now on, if heads are a source."""
        if self._loader is not None:
            self._loader.start()
        if self._adaptation is not None and self._source is not None:
            self.step.recorder = self._adaptation.recorder
            self._adaptation.start(self._source.tables, self._source.tokenizer)

    def believe(self, profile: Points) -> None:
        """Give the gate the step times that were measured for this model on this machine."""
        self.drafter.gate.believe(profile)

    def stop(self) -> None:
        """Store the answers of running requests, save the index, publish the last metrics."""
        self.drafter.end(list(self.drafter.running), keep=True)
        if self._loader is not None:
            self._loader.stop()
        if self._adaptation is not None:
            self._adaptation.stop()
        for thread in self._threads:
            thread.stop()

    def _publish(self) -> None:
        index = None if self._index is None else self._index.stats()
        self._metrics.publish(self.drafter, index, self._sources, self.step.launch)
        self._report.write(self._facts())
        self._sampling_metrics.publish(self.sampling)
        self._sampling_report.write(
            {
                "checked": sum(self.sampling.counts),
                "tenths": list(self.sampling.counts),
                "evidence": round(self.sampling.evidence, 2),
            }
        )
        if "head" in self._sources:
            heads = self.step.heads
            self._head_metrics.publish(heads.roles, heads.results)
            self._heads_report.write(heads.facts())
            if self._adaptation is not None:
                self._adaptation.publish(None if heads.serving is None else heads.serving.folder)

    def _facts(self) -> dict[str, JsonValue]:
        """Return the gate's part of `GET /speculation` (docs/gate.md)."""
        drafter, gate = self.drafter, self.drafter.gate
        counters = drafter.counters
        steps = {name: counters.decisions[name] for name in DECISIONS}
        recent, _ = self._recent.rise(steps, time.monotonic())
        decisions: JsonValue = {**steps}
        return {
            "open": any(drafter.may_draft(name) for name in self._sources),
            "price": round(gate.price, 4),
            "goodput_tokens_per_second": round(gate.goodput, 1),
            "trust": round(gate.trust, 3),
            "measured_over_expected": round(self._metrics.prediction, 3),
            "decisions": decisions,
            "verdicts": decisions,  # old name, until 0.3.0
            "recent_decisions": {**recent},
            "steps": self.step.launches(),
            "fallbacks": dict(counters.fallbacks),
            "limited": gate.is_limited,
            "max_batch_size": self._max_batch_size,
            "sources": {
                name: {"open": int(drafter.may_draft(name)), "paused": drafter.is_paused(name)}
                for name in self._sources
            },
            "verification_cost_ms": (
                curve_in_ms([(size, gate.predict_verification(size)) for size in VERIFYING_SIZES])
                if gate.is_measured
                else None
            ),
            "step_cost_ms": curve_in_ms(gate.step_curve()) if gate.is_measured else None,
            "pass_cost_ms": (
                curve_in_ms(gate.pass_curve())
                if gate.is_measured and "head" in self._sources
                else None
            ),
        }


def load_head(
    speculation: RankSpeculation | None, target: Any, vllm_config: Any, *, device: Any
) -> None:
    """Load the draft head beside its target, if heads are a source; called on every rank.

    Args:
        speculation: Of this rank; None if another one drafts.
        target: The loaded model.
        vllm_config: vLLM's configuration.
        device: Of the model.

    Raises:
        HeadError: The head of the settings is damaged, or was made for another target.
    """
    if "head" not in read_settings(vllm_config).sources:
        return
    named = vllm_config.additional_config["specgate"]["head"]
    folder = None if named is None else Path(named)
    model = vllm_config.model_config
    if vllm_config.parallel_config.tensor_parallel_size == 1:
        tables = find_tables(target, model.get_vocab_size())
    elif folder is None:
        tables = SharedTables()
    else:
        # Other ranks cannot be asked for their parts later, while they compute steps.
        tables = gather_tables(target, read_head_config(folder), model.get_vocab_size())
    if speculation is not None:
        settings, scheduling = read_settings(vllm_config), vllm_config.scheduler_config
        source = HeadSource(
            tables,
            model,
            device=device,
            most=settings.head.max_draft_tokens,
            requests=scheduling.max_num_seqs,
            always_ahead=bool(scheduling.async_scheduling) and settings.launch == "ahead",
        )
        speculation.take_heads(source, folder)
