"""The draft heads of a worker: the one that serves, and one beside it that may take its place.

A new head is tried beside the serving one (engine/worker/trial.py). If it is worth more it takes
over, and the old one stays on guard: the same trial the other way round, which brings it back if
the new one proves worse. Without a serving head there is nothing to compare, and a new head serves
at once. docs/adr/0036 has the reasons.
"""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from engine.drafting import Control
from engine.heads import HeadMemory
from engine.policy import MOST_PAIRS, Verdict
from engine.worker.head import HeadRun
from engine.worker.trial import Conditions, LoadedHead, Trial

_log = logging.getLogger(__name__)

RESULTS = (
    "adopted", "deleted", "failed", "forgotten", "kept", "refused", "replaced", "rolled_back",
    "unchanged", "unloaded",
)  # fmt: skip
"""All outcomes of a command."""

_KEPT_CHANGES = 32


@dataclass(slots=True)
class Change:
    """A command and what became of it.

    Attributes:
        id: Names it in the report.
        action: `load`, `unload`, `forget` or `forget_traffic`.
        by: Who asked for it.
        name: Of the folder to load.
        version: Of the head; None until it is known.
        state: `loading`, `trial`, or one of `RESULTS`.
        why: What there is to say about that.
    """

    id: str
    action: str
    by: str
    name: str | None = None
    version: str | None = None
    state: str = "loading"
    why: str = ""

    def as_json(self) -> dict[str, JsonValue]:
        """Return it for the report."""
        return {
            "id": self.id,
            "action": self.action,
            "by": self.by,
            "name": self.name,
            "version": self.version,
            "state": self.state,
            "why": self.why,
        }


class Heads:
    """Decides which head serves.

    Commands come from the thread that loads heads, everything else from the thread that runs the
    steps. A head is replaced between two calls of a step, which costs nothing: all is prepared.

    Attributes:
        serving: The head that drafts; None if there is none.
        results: Changes so far, by outcome.
        roles: `serving`, `challenger` or `guard`, by version; replaced, never changed.
    """

    def __init__(self) -> None:
        self.serving: LoadedHead | None = None
        self.results: Counter[str] = Counter(dict.fromkeys(RESULTS, 0))
        self.roles: Mapping[str, str] = {}
        self._trial: Trial | None = None
        self._pending: Change | None = None  # which began the trial
        self._changes: deque[Change] = deque(maxlen=_KEPT_CHANGES)
        self._lock = threading.RLock()
        # Freeing a head's memory takes milliseconds, which a step must not wait for.
        self._dropped: list[object] = []

    @property
    def is_trying(self) -> bool:
        """Whether there is a head beside the serving one."""
        return self._trial is not None

    def note(self, change: Change) -> None:
        """Show a command in the report from now on."""
        with self._lock:
            self._changes.append(change)

    def start(self, loaded: LoadedHead) -> None:
        """Serve with the head of the settings, before the first step."""
        with self._lock:
            self._set(loaded, None)
        _log.info("head %s (version %s) serves", loaded.name, loaded.version)

    def offer(self, loaded: LoadedHead, change: Change) -> None:
        """Try a head beside the serving one; without one it serves at once."""
        with self._lock:
            change.version = loaded.version
            serving = self.serving
            if serving is not None and serving.version == loaded.version:
                self.settle(change, "unchanged", "this version serves already")
                return
            self._end_trial("replaced", f"version {loaded.version} was loaded")
            if serving is None:
                self._set(loaded, None)
                self.settle(change, "adopted", "there was no head to compare it with")
                return
            change.state = "trial"
            self._pending = change
            self._set(serving, Trial(serving, loaded))
            _log.info(
                "head %s (version %s, by %s) is tried beside version %s",
                *(loaded.name, loaded.version, change.by, serving.version),
            )

    def unload(self, change: Change) -> None:
        """Serve without a head; the other sources go on."""
        with self._lock:
            if self.serving is None:
                self.settle(change, "unchanged", "there is no head")
                return
            change.version = self.serving.version
            self._end_trial("replaced", "the head was unloaded")
            self._set(None, None)
            self.settle(change, "unloaded", "drafts come from the other sources")

    def forget(self, change: Change) -> None:
        """Drop the head beside the serving one: no trial goes on, and no head comes back."""
        with self._lock:
            if self._trial is None:
                self.settle(change, "unchanged", "there is no head beside the serving one")
                return
            change.version = self._trial.challenger.version
            self._end_trial("replaced", "the trial was ended by a command")
            self._set(self.serving, None)
            self.settle(change, "forgotten", "the serving head stays")

    def settle(self, change: Change, result: str, why: str) -> None:
        """Set the outcome of a command, count it and log it.

        Args:
            change: The command.
            result: One of `RESULTS`.
            why: What there is to say about it.
        """
        with self._lock:
            change.state, change.why = result, why
            self.results[result] += 1
        is_wrong = result in ("failed", "refused", "rolled_back")
        _log.log(
            logging.WARNING if is_wrong else logging.INFO,
            "head %s (version %s, by %s): %s: %s",
            *(change.name or change.action, change.version, change.by, result, why),
        )

    def try_challenger(
        self,
        run: HeadRun,
        conditions: Conditions,
        control: Callable[[str], Control],
        note_prompts: Callable[[HeadMemory], None],
    ) -> float:
        """Go on with the trial, if there is one; an error ends it and changes nothing else.

        Arguments are those of `Trial.step`.

        Returns:
            How long it ran heads, in seconds.
        """
        trial = self._trial
        if trial is None or run.head is not trial.serving.head:
            return 0.0
        try:
            seconds = trial.step(run, conditions, control, note_prompts)
        except Exception as exc:  # noqa: BLE001  # the trial ends, with a line in log and report
            self._fail(trial, exc)
            return 0.0
        if trial.contest.verdict is not None:
            self._decide(trial, trial.contest.verdict)
        return seconds

    def forget_requests(self, requests: Collection[str]) -> None:
        """Drop requests that finished or were preempted; raises what the serving memory raises."""
        trial, serving = self._trial, self.serving
        if trial is not None:
            try:
                trial.forget(requests)
            except Exception as exc:  # noqa: BLE001  # as in `try_challenger`
                self._fail(trial, exc)
        if serving is not None and serving.memory is not None:
            serving.memory.forget(requests)

    def clear(self) -> None:
        """Drop what may be incomplete, or what later steps would not follow directly."""
        trial, serving = self._trial, self.serving
        if trial is not None:
            trial.clear()
        if serving is not None and serving.memory is not None:
            serving.memory.clear()

    def free(self) -> None:
        """Free the memory of heads that were dropped; called by the thread that loads."""
        self._dropped.clear()

    def facts(self) -> dict[str, JsonValue]:
        """Return the part `heads` of `GET /speculation`."""
        with self._lock:
            trial, serving = self._trial, self.serving
            changes: list[JsonValue] = [change.as_json() for change in self._changes]
        return {
            "serving": None if serving is None else _named(serving),
            "beside": None if trial is None else _beside(trial),
            "changes": changes,
        }

    def _decide(self, trial: Trial, verdict: Verdict) -> None:
        with self._lock:
            change = self._pending
            if self._trial is not trial or change is None:
                return
            contest = trial.contest
            figures = (
                f"worth {contest.mean:+.3f} tokens a pass over version {trial.serving.version}, "
                f"{contest.score:+.1f} standard errors, {contest.pairs} pairs"
            )
            is_better = verdict is Verdict.BETTER
            if trial.is_guard and is_better:
                self._set(trial.challenger, None)
                self.settle(change, "rolled_back", f"version {trial.challenger.version}: {figures}")
            elif trial.is_guard:
                self._set(trial.serving, None)
                _log.info(
                    "head version %s stays: version %s %s",
                    *(trial.serving.version, trial.challenger.version, figures),
                )
            elif is_better:
                late = trial.late
                guard = Trial(trial.challenger, trial.serving, is_guard=True, late=late)
                self._set(trial.challenger, guard)
                self.settle(change, "adopted", figures)
            else:
                self._set(trial.serving, None)
                self.settle(change, "kept", f"version {trial.serving.version} serves on: {figures}")
            if self._trial is None:
                self._pending = None

    def _fail(self, trial: Trial, exc: Exception) -> None:
        with self._lock:
            if self._trial is trial:
                _log.error("a head failed beside the serving one", exc_info=exc)
                self._end_trial("failed", f"{type(exc).__name__}: {exc}")
                self._set(self.serving, None)

    def _end_trial(self, result: str, why: str) -> None:
        """Settle the command of a trial that ends without a verdict; a guard's is settled."""
        change, self._pending = self._pending, None
        if change is not None and change.state == "trial":
            self.settle(change, result, why)

    def _set(self, serving: LoadedHead | None, trial: Trial | None) -> None:
        self._dropped += [self.serving, self._trial]
        self.serving, self._trial = serving, trial
        roles = {} if serving is None else {serving.version: "serving"}
        if trial is not None:
            roles[trial.challenger.version] = trial.role
        self.roles = roles


def _named(loaded: LoadedHead) -> dict[str, JsonValue]:
    return {"version": loaded.version, "name": loaded.name, "max_draft_tokens": loaded.most}


def _beside(trial: Trial) -> dict[str, JsonValue]:
    contest = trial.contest
    return {
        **_named(trial.challenger),
        "role": trial.role,
        "pairs": contest.pairs,
        "most_pairs": MOST_PAIRS,
        "worth": round(contest.mean, 4),
    }
