"""Start, watch, restart and stop the gateway's own worker."""

from gateway.supervisor.backoff import Backoff
from gateway.supervisor.facts import SupervisorFacts, read_facts, write_facts
from gateway.supervisor.process import WorkerCommand, WorkerProcess
from gateway.supervisor.progress import Progress, ProgressWatch
from gateway.supervisor.supervisor import (
    RESTART_REASONS,
    Supervisor,
    SupervisorPolicy,
    SupervisorState,
    WorkerRefusedError,
)

__all__ = [
    "RESTART_REASONS",
    "Backoff",
    "Progress",
    "ProgressWatch",
    "Supervisor",
    "SupervisorFacts",
    "SupervisorPolicy",
    "SupervisorState",
    "WorkerCommand",
    "WorkerProcess",
    "WorkerRefusedError",
    "read_facts",
    "write_facts",
]
