"""Which faults there are, and the seeded draw of those of a run. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What happens, between gateway and worker or to processes and the disk.

    RESET_ALL: every connection is reset, and new ones for a while. REFUSE: likewise, and new ones
    are refused. FREEZE: no bytes pass for a while, shorter or longer than the gateway's time-out.
    RESET_ANSWER, CUT_ANSWER, HANG_ANSWER, GARBAGE, BAD_FRAME: one answer is reset, ended early,
    never goes on, turns into noise, or has an event that is no JSON. RESTART_GATEWAY: SIGTERM, and
    a new one. KILL_*: SIGKILL. STOP_*: SIGSTOP. FULL_DISK: the suffix index cannot be saved.
    STOP_SERVICE: SIGTERM to a gateway that owns its worker, and a new one.
    """

    RESET_ALL = "reset_all"
    REFUSE = "refuse"
    FREEZE = "freeze"
    RESET_ANSWER = "reset_answer"
    CUT_ANSWER = "cut_answer"
    HANG_ANSWER = "hang_answer"
    GARBAGE = "garbage"
    BAD_FRAME = "bad_frame"
    RESTART_GATEWAY = "restart_gateway"
    KILL_API_SERVER = "kill_api_server"
    KILL_ENGINE_CORE = "kill_engine_core"
    STOP_API_SERVER = "stop_api_server"
    STOP_ENGINE_CORE = "stop_engine_core"
    FULL_DISK = "full_disk"
    STOP_SERVICE = "stop_service"


CONNECTION = (
    *(Kind.RESET_ALL, Kind.REFUSE, Kind.FREEZE, Kind.RESET_ANSWER, Kind.CUT_ANSWER),
    *(Kind.HANG_ANSWER, Kind.GARBAGE, Kind.BAD_FRAME, Kind.RESTART_GATEWAY),
)
"""Drawn evenly; they need no new worker."""

_SERVICE = (
    *(Kind.KILL_ENGINE_CORE, Kind.FULL_DISK, Kind.KILL_API_SERVER, Kind.STOP_ENGINE_CORE),
    *(Kind.STOP_SERVICE, Kind.STOP_API_SERVER, Kind.KILL_ENGINE_CORE, Kind.KILL_API_SERVER),
    *(Kind.STOP_API_SERVER, Kind.STOP_ENGINE_CORE),
)
"""Taken in turn, then shuffled, so that even a few of them are of different kinds."""

_SERVICE_SHARE = 0.1
_LEAST_SERVICE = 2
_PAUSE_SECONDS = (0.2, 2.0)
_LASTING_SECONDS = (0.3, 2.5)
_BYTES_PASSED = ((0, 0), (1, 150), (200, 2_000), (2_000, 8_000))
"""Nothing of the answer, part of its head, its begin, its middle."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        pause_seconds: Quiet time before it.
        lasting_seconds: Duration of a fault that lasts.
        bytes_passed: Bytes of the answer before a fault of an answer.
        proxy: Number of the proxy before the worker that it hits, 0 or 1.
    """

    kind: Kind
    pause_seconds: float
    lasting_seconds: float
    bytes_passed: int
    proxy: int


@dataclass(frozen=True, slots=True)
class Draw:
    """The faults of a run, in order."""

    connection: tuple[Fault, ...]
    service: tuple[Fault, ...]


def draw_faults(count: int, *, seed: int) -> Draw:
    """Draw the faults of a run; the same for the same seed.

    Args:
        count: Of all faults, at least 3; a tenth of them, and at least two, need a new worker.
        seed: Of the draw.
    """
    random = Random(seed)
    service_count = max(_LEAST_SERVICE, round(count * _SERVICE_SHARE))
    connection = [CONNECTION[number % len(CONNECTION)] for number in range(count - service_count)]
    service = [_SERVICE[number % len(_SERVICE)] for number in range(service_count)]
    random.shuffle(connection)
    random.shuffle(service)
    return Draw(
        connection=tuple(_fault(kind, random) for kind in connection),
        service=tuple(_fault(kind, random) for kind in service),
    )


def _fault(kind: Kind, random: Random) -> Fault:
    return Fault(
        kind=kind,
        pause_seconds=random.uniform(*_PAUSE_SECONDS),
        lasting_seconds=random.uniform(*_LASTING_SECONDS),
        bytes_passed=random.randint(*random.choice(_BYTES_PASSED)),
        proxy=random.randrange(2),
    )
