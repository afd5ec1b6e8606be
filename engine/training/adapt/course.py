"""Trains whenever enough new traffic has been recorded, and keeps count of the outcomes."""

from collections.abc import Callable
from pathlib import Path

from pydantic import JsonValue

from engine.errors import EngineError
from engine.traffic import OUTCOMES, AdaptFolder, Seal, tokens_of
from engine.training.adapt.fine_tune import Tuned, fine_tune, load_base
from engine.training.adapt.publish import publish
from engine.training.adapt.traffic import Traffic, all_segments, read_traffic


class Adapter:
    """Looks at a folder, and trains when it is time.

    Args:
        folder: Of worker and trainer.
        seal: Opens the segments.
        every_tokens: Recorded answer tokens from one training to the next.
        rest: Called after each step of the optimizer.
    """

    def __init__(
        self,
        folder: AdaptFolder,
        seal: Seal,
        *,
        every_tokens: int,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder = folder
        self._seal = seal
        self._every_tokens = every_tokens
        self._rest = rest

    def look(self) -> str | None:
        """Train if there is enough new traffic; return the outcome, or None if there is not.

        Raises:
            OSError: The folder cannot be read, or the outcome cannot be written.
        """
        status = self._folder.read_status()
        until = str(status.get("until", ""))
        paths = all_segments(self._folder)
        new = sum(tokens_of(path) for path in paths if path.name > until)
        serving = self._folder.read_serving()
        if serving is None or new < self._every_tokens:
            return None
        outcome, facts = self._train(paths, *serving)
        outcomes: dict[str, JsonValue] = dict.fromkeys(OUTCOMES, 0)
        known = status.get("outcomes")
        outcomes |= known if isinstance(known, dict) else {}
        outcomes[outcome] = int(str(outcomes[outcome])) + 1
        last: dict[str, JsonValue] = {"outcome": outcome, **facts}
        self._folder.write_status({"until": paths[-1].name, "outcomes": outcomes, "last": last})
        return outcome

    def _train(
        self, paths: list[Path], serving: Path, target: str
    ) -> tuple[str, dict[str, JsonValue]]:
        """Train and perhaps publish; return the outcome, and what there is to say about it."""
        deletion = self._folder.last_deletion()
        try:
            traffic = read_traffic(paths, self._seal, target=target)
            if traffic is None:
                return "failed", {"why": "no segment could be read, or none to judge a head by"}
            tuned = self._tune(traffic, serving, seed=len(paths))
            facts = _facts(traffic, tuned)
            if not tuned.is_better:
                return "not_better", facts
            if self._folder.last_deletion() != deletion:
                return "deleted", facts
            path = publish(tuned.head, self._folder, serving=serving, card={"adapted": facts})
        except (EngineError, OSError) as exc:
            return "failed", {"why": str(exc).replace(str(self._folder.root), "...")}
        return "published", {**facts, "head": path.name}

    def _tune(self, traffic: Traffic, serving: Path, *, seed: int) -> Tuned:
        return fine_tune(load_base(serving, self._folder), traffic, seed=seed, rest=self._rest)


def _facts(traffic: Traffic, tuned: Tuned) -> dict[str, JsonValue]:
    return {
        "tokens": traffic.training.answer_tokens,
        "held_out_tokens": traffic.held_out.answer_tokens,
        "damaged_segments": traffic.damaged,
        "steps": tuned.steps,
        "acceptance_ratio_before": round(tuned.before, 4),
        "acceptance_ratio_after": round(tuned.after, 4),
    }
