"""Plays traffic to simulated workers, through one or more replicas of a gateway."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Literal

from bench.routing.rules import MakeRule, Rule
from bench.routing.traffic import Request
from bench.routing.worker import Job, Model, Worker

_REPORT_SECONDS = 1.0
_RETRY_SECONDS = 0.2
_MODEL = Model()
_PATIENCE = 2
"""A run ends after this many times its length, whatever is unanswered."""


@dataclass(frozen=True, slots=True)
class Change:
    """A worker is lost with its requests, gets no more of them (`drain`), or comes up, empty."""

    at: float
    worker: int
    what: Literal["lost", "drain", "up"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What the workers do.

    Attributes:
        slowness: By worker; 2 takes twice the time.
        changes: In any order.
    """

    slowness: dict[int, float] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What happened.

    Attributes:
        jobs: The requests that were answered.
        present_seconds: Of each worker, requests times seconds, from `warm_up` to the last request.
        rules: One for each replica.
    """

    jobs: Sequence[Job]
    present_seconds: Sequence[float]
    rules: Sequence[Rule]


class Fleet:
    """One run.

    Args:
        workers: How many.
        replicas: Of the gateway. Each request goes to any of them.
        scenario: What the workers do.
        make_rule: Makes the rule of a replica.
        seed: Of the rules' and the replicas' chance.
    """

    def __init__(
        self, workers: int, replicas: int, scenario: Scenario, make_rule: MakeRule, *, seed: int
    ) -> None:
        self._random = Random(seed)  # a simulation
        slowness = scenario.slowness
        self._workers = [Worker(_MODEL, slowness=slowness.get(at, 1.0)) for at in range(workers)]
        self._rules = [make_rule(self._workers, self._random) for _ in range(replicas)]
        self._up = list(range(workers))
        self._alive = [True] * workers
        self._versions = [0] * workers
        self._sent_by: dict[Job, Rule] = {}
        self._ended: list[Job] = []
        self._order = count()
        self._due: list[tuple[float, int, _Due]] = []
        for change in scenario.changes:
            self._push(change.at, change)
        for worker in range(workers):
            for rule in self._rules:
                self._push(self._random.random() * _REPORT_SECONDS, _Look(worker, rule))

    def play(self, traffic: Sequence[Request], seconds: float, *, warm_up: float = 0.0) -> Run:
        """Send all requests, which come within `seconds`, and wait for the answers."""
        for request in traffic:
            self._push(request.at, request)
        now, marks = 0.0, [warm_up, seconds]
        present: list[list[float]] = []
        while now < seconds or (self._sent_by and now < _PATIENCE * seconds):
            now, _, due = heappop(self._due)
            if marks and now >= marks[0]:
                marks.pop(0)
                for worker in range(len(self._workers)):
                    self._advance(worker, now)
                present.append([worker.present_seconds for worker in self._workers])
            self._handle(due, now)
        first, last = present
        loads = [end - begin for begin, end in zip(first, last, strict=True)]
        return Run(self._ended, loads, self._rules)

    def _handle(self, due: "_Due", now: float) -> None:
        match due:
            case Request():
                self._send(due, now)
            case _Wake(worker, version):
                if version == self._versions[worker]:
                    self._advance(worker, now)
            case _Look(worker, rule):
                if self._alive[worker]:
                    self._advance(worker, now)
                    rule.report(worker, self._workers[worker])
                self._push(now + _REPORT_SECONDS, due)
            case Change():
                self._advance(due.worker, now)
                self._change(due, now)

    def _send(self, request: Request, now: float) -> None:
        rule = self._random.choice(self._rules)
        worker = rule.choose(request, self._up, now)
        self._advance(worker, now)
        job = Job(request, now)
        self._sent_by[job] = rule
        rule.began(job, worker, now)
        self._workers[worker].add(job)
        self._advance(worker, now)

    def _advance(self, worker: int, now: float) -> None:
        """Let a worker's time pass until now, and come back when its next request ends."""
        for job in self._workers[worker].advance(now):
            rule = self._sent_by[job]
            if job.ended is None:
                assert job.first is not None
                rule.first(job, job.first)
            else:
                rule.ended(job, worker, job.ended, lost=False)
                del self._sent_by[job]
                self._ended.append(job)
        self._versions[worker] += 1
        following = self._workers[worker].next_event()
        if following is not None:
            self._push(following, _Wake(worker, self._versions[worker]))

    def _change(self, change: Change, now: float) -> None:
        worker = change.worker
        self._up = [other for other in self._up if other != worker]
        if change.what == "drain":
            return
        self._alive[worker] = change.what == "up"
        if change.what == "up":
            self._up = sorted((*self._up, worker))
        for job in self._workers[worker].reset():
            self._sent_by.pop(job).ended(job, worker, now, lost=True)
            self._push(now + _RETRY_SECONDS, job.request)
        for rule in self._rules:
            rule.set_up(worker, self._alive[worker], now)

    def _push(self, at: float, due: "_Due") -> None:
        heappush(self._due, (at, next(self._order), due))


@dataclass(frozen=True, slots=True)
class _Wake:
    worker: int
    version: int


@dataclass(frozen=True, slots=True)
class _Look:
    worker: int
    rule: Rule


_Due = Request | Change | _Wake | _Look
