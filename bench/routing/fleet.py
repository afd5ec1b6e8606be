"""Plays traffic to simulated workers through replicas of a gateway."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

from bench.routing.rules import Rule
from bench.routing.traffic import Request
from bench.routing.worker import Job, Model, Worker

_POLL_SECONDS = 1.0
STICKY = 0.0
_RETRY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Event:
    """At a time a worker goes down (`lost`: with its requests; else it drains) or comes up."""

    at: float
    worker: int
    what: str


@dataclass(slots=True)
class Outcome:
    jobs: list[Job] = field(default_factory=list)
    present: list[float] = field(default_factory=list)


def play(
    traffic: Sequence[Request],
    make_rule: Callable[[int, Random, list[Worker]], Rule],
    *,
    workers: int,
    replicas: int,
    slow: dict[int, float],
    events: Sequence[Event] = (),
    seed: int = 0,
    model: Model = Model(),
    seconds: float,
) -> tuple[list[tuple[Request, Job, float]], list[Worker], list[Rule]]:
    random = Random(seed)
    fleet = [Worker(model, slowness=slow.get(at, 1.0)) for at in range(workers)]
    rules = [make_rule(workers, random, fleet) for _ in range(replicas)]
    polls = [Random(seed + 1).random() * _POLL_SECONDS for _ in range(workers)]
    heap: list[tuple[float, int, int, object]] = []
    order = 0
    version = [0] * workers
    taking = [True] * workers
    owner: dict[int, tuple[Rule, int]] = {}
    results: list[tuple[Request, Job]] = []

    def push(at, kind, what):
        nonlocal order
        order += 1
        heappush(heap, (at, order, kind, what))

    up = list(range(workers))

    def settle(slot, done):
        for job in done:
            rule, _ = owner[id(job)]
            if job.ended is None:
                rule.first(job, slot, job.first)
            else:
                if job.ended == job.first:
                    pass
                rule.ended(job, slot, job.ended, lost=False)
                results.append((job.request, job))
                del owner[id(job)]

    def schedule(slot):
        version[slot] += 1
        at = fleet[slot].next_event()
        if at is not None:
            push(at, 1, (slot, version[slot]))

    def send(request, now):
        rule = rules[request.conversation % replicas if random.random() < STICKY else random.randrange(replicas)]
        slot = rule.choose(request, up, now)
        job = Job(request, now)
        owner[id(job)] = (rule, slot)
        rule.began(job, slot, now)
        settle(slot, fleet[slot].add(job, now))
        schedule(slot)

    for at in range(workers):
        for rule_at in range(replicas):
            push(polls[at] + rule_at / replicas, 2, (at, rule_at))
    for event in events:
        push(event.at, 3, event)
    loads = None
    upcoming = iter(traffic)
    following = next(upcoming, None)
    while following is not None or heap:
        if following is not None and (not heap or following.at <= heap[0][0]):
            send(following, following.at)
            following = next(upcoming, None)
            continue
        now, _, kind, what = heappop(heap)
        if now > seconds and (not owner or now > 4 * seconds):
            break
        if now > seconds and loads is None:
            for each in fleet:
                each_done = each.advance(min(now, seconds))
                settle(fleet.index(each), each_done)
                schedule(fleet.index(each))
            loads = [each.present_seconds for each in fleet]
        if kind == 1:
            slot, known = what
            if known == version[slot]:
                settle(slot, fleet[slot].advance(now))
                schedule(slot)
        elif kind == 2:
            slot, rule_at = what
            if fleet[slot].up:
                settle(slot, fleet[slot].advance(now))
                schedule(slot)
                rules[rule_at].report(slot, fleet[slot])
            push(now + _POLL_SECONDS, 2, what)
        elif kind == 3:
            slot = what.worker
            settle(slot, fleet[slot].advance(now))
            if what.what == "lost":
                lost = fleet[slot].reset()
                fleet[slot].up = False
                up = [at for at in up if at != slot]
                for job in lost:
                    rule, _ = owner.pop(id(job))
                    rule.ended(job, slot, now, lost=True)
                    push(now + _RETRY_SECONDS, 4, job.request)
                for rule in rules:
                    rule.set_up(slot, False, now)
            elif what.what == "drain":
                up = [at for at in up if at != slot]
            else:
                fleet[slot].up = True
                up = sorted({*up, slot})
                for rule in rules:
                    rule.set_up(slot, True, now)
            schedule(slot)
        else:
            send(what, now)
    return results, fleet, rules, loads
