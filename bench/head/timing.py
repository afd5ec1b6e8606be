"""Sums of a worker's histograms, and their difference between two readings."""

from dataclasses import dataclass
from typing import Self

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Timing:
    """A histogram of times: how many, and their sum in seconds."""

    count: float = 0.0
    seconds: float = 0.0

    def __sub__(self, earlier: "Timing") -> "Timing":
        return Timing(self.count - earlier.count, self.seconds - earlier.seconds)

    @property
    def mean(self) -> float:
        """Mean time in seconds, of at least one."""
        return self.seconds / self.count

    @classmethod
    def of_head_pass(cls, metrics: str) -> Self:
        """Passes of the draft head; nothing at a worker without one.

        Args:
            metrics: A worker's `/metrics`.
        """
        return cls._read(metrics, "engine_spec_step_seconds", phase="head")

    @classmethod
    def of_step(cls, metrics: str) -> Self:
        """Decoding steps of the requests, as vLLM times them: from one's tokens to the next one's.

        At batch 1 that is the whole step: scheduling, forward, sampling, drafting.

        Args:
            metrics: A worker's `/metrics`.
        """
        return cls._read(metrics, "vllm:inter_token_latency_seconds")

    @classmethod
    def _read(cls, metrics: str, name: str, **labels: str) -> Self:
        found = {f"{name}_count": 0.0, f"{name}_sum": 0.0}
        for family in text_string_to_metric_families(metrics):
            for sample in family.samples:
                if sample.name in found and labels.items() <= sample.labels.items():
                    found[sample.name] += sample.value
        return cls(found[f"{name}_count"], found[f"{name}_sum"])
