"""The report of a run of faults, and whether every guarantee held. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from loadtest.chaos.faults import Kind
from loadtest.chaos.inflict import Injury
from loadtest.chaos.profile import MOST_REPLAYS, patience_seconds
from loadtest.chaos.seams import Seams
from loadtest.load import Answer, Ending, Outcome

_REPLAYABLE = frozenset({"worker_lost", "no_healthy_worker"})
_BEYOND_START_SECONDS = 5.0
_MOST_EXAMPLES = 5
_MOST_LOST_SHARE = 0.01
_LONG_PAUSE_SECONDS = 2.0

Json = dict[str, object]


@dataclass(slots=True)
class Chaos:
    """The state of a run.

    Attributes:
        injuries: Faults that happened.
        missed: Faults that did not: no answer came that they could hit.
        unavailable: Kinds that this machine does not allow, with the reason.
        began: Requests sent.
        outcomes: Of those that ended.
        tries: How often a request was sent to a worker, by its id.
        first_start_seconds: Start of the worker before anything happened.
        left_behind: Processes that were alive after their part of the run.
        seams: Of streams that went on with another worker.
    """

    injuries: list[Injury] = field(default_factory=list)
    missed: int = 0
    unavailable: dict[str, str] = field(default_factory=dict)
    began: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    tries: dict[str, int] = field(default_factory=dict)
    first_start_seconds: float | None = None
    left_behind: int = 0
    seams: Seams = field(default_factory=Seams)


def is_lost_replay(answer: Answer, *, tries: int) -> bool:
    """Whether a request failed that the gateway should have sent again.

    Its worker was lost, nothing of an answer had reached the client, and it had not been lost with
    as many workers as the settings allow: a request that kills workers must not kill all of them.
    """
    failed = answer.ending is Ending.ERROR and answer.error in _REPLAYABLE
    return failed and not answer.events and tries <= MOST_REPLAYS


def has_one_ending(answer: Answer) -> bool:
    """Whether it ended exactly once, so that a client can read it, or the client left."""
    match answer.ending:
        case Ending.DONE | Ending.LEFT | Ending.HUNG:  # what hangs is counted apart
            return True
        case Ending.ERROR:
            return answer.error != "not JSON"
        case Ending.NONE | Ending.SEVERAL:
            return False


def beyond_start_seconds(injury: Injury) -> float | None:
    """Recovery time less the time-out of the settings and the new worker's own start."""
    if injury.recover_seconds is None:
        return None
    expected = patience_seconds(injury.kind) + (injury.start_seconds or 0.0)
    return injury.recover_seconds - expected


def report_of(chaos: Chaos) -> Json:
    """The JSON object; `is_good` tells whether every guarantee held."""
    answers = [outcome.answer for outcome in chaos.outcomes]
    strays = [answer for answer in answers if not has_one_ending(answer)]
    hung = [answer for answer in answers if answer.ending is Ending.HUNG]
    unsent = [each for each in answers if is_lost_replay(each, tries=0)]
    lost = [
        answer
        for answer in unsent
        if is_lost_replay(answer, tries=chaos.tries.get(answer.recording.request_id, 0))
    ]
    never_ended = chaos.began - len(answers)
    injuries = chaos.injuries
    beyond = [seconds for each in injuries if (seconds := beyond_start_seconds(each)) is not None]
    starts = [each.start_seconds for each in injuries if each.start_seconds is not None]
    counts: dict[str, int] = {
        "without_one_ending": len(strays) + never_ended,
        "hung": len(hung),
        "lost_replays": len(lost),
        "not_recovered": sum(i.recover_seconds is None or not i.is_settled for i in injuries),
        "late_recoveries": sum(seconds > _BEYOND_START_SECONDS for seconds in beyond),
        "bad_exits": sum(each.exit_status not in (None, 0) for each in injuries),
        "left_behind": chaos.left_behind + sum(each.left_behind for each in injuries),
        "damaged_snapshots": sum(each.damaged_snapshots for each in injuries),
        "delivered_twice": chaos.seams.delivered_twice,
        "continued_differ": chaos.seams.compared - chaos.seams.identical,
    }
    seams = chaos.seams
    return {
        "bench": "chaos",
        "faults": len(injuries),
        "requests": chaos.began,
        **counts,
        "recover_seconds_max": _most(i.recover_seconds for i in injuries),
        "recover_beyond_start_seconds_max": _most(beyond),
        "worker_start_seconds": {
            "first": chaos.first_start_seconds,
            "median": median(starts) if starts else None,
            "max": max(starts, default=None),
        },
        "streams_killed": seams.killed,
        "streams_continued": seams.continued,
        "streams_lost": seams.lost,
        "continued_pause_seconds": {
            "streams": len(seams.pauses),
            "median": median(seams.pauses) if seams.pauses else None,
            "max": _most(seams.pauses),
            "over_two": sum(seconds > _LONG_PAUSE_SECONDS for seconds in seams.pauses),
        },
        "continued_compared": seams.compared,
        "continued_identical": seams.identical,
        "is_good": (
            bool(injuries)
            and not any(counts.values())
            and seams.lost <= _MOST_LOST_SHARE * seams.killed
        ),
        "endings": _counted(answer.ending for answer in answers),
        "errors": _counted(answer.error for answer in answers if answer.error is not None),
        "lost_with_every_replay": len(unsent) - len(lost),
        "faults_missed": chaos.missed,
        "unavailable": chaos.unavailable,
        "by_kind": {kind: found for kind in Kind if (found := _of_kind(kind, injuries))},
        "examples": [_said(answer) for answer in [*strays, *hung, *lost][:_MOST_EXAMPLES]],
    }


def _of_kind(kind: Kind, injuries: Sequence[Injury]) -> Json:
    found = [each for each in injuries if each.kind is kind]
    if not found:
        return {}
    seconds = [each.recover_seconds for each in found if each.recover_seconds is not None]
    beyond = [each for injury in found if (each := beyond_start_seconds(injury)) is not None]
    return {
        "faults": len(found),
        "patience_seconds": patience_seconds(kind),
        "recover_seconds_median": median(seconds) if seconds else None,
        "recover_seconds_max": _most(seconds),
        "recover_beyond_start_seconds_max": _most(beyond),
        "stop_seconds_max": _most(each.stop_seconds for each in found),
        "not_recovered": sum(i.recover_seconds is None or not i.is_settled for i in found),
    }


def _said(answer: Answer) -> Json:
    tail = b"".join(data for _, data in answer.recording.packets)[-300:]
    return {
        "ending": answer.ending,
        "status": answer.status,
        "error": answer.error,
        "why": answer.recording.why,
        "pieces": len(answer.arrivals),
        "last_bytes": tail.decode(errors="replace"),
    }


def _most(values: Iterable[float | None]) -> float | None:
    return max((round(value, 3) for value in values if value is not None), default=None)


def _counted(names: Iterable[str]) -> dict[str, int]:
    return {str(name): count for name, count in Counter(names).most_common()}
