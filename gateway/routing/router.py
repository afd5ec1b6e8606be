"""Sends each request where it is expected to be answered first.

The expected time of a request at a worker is what is to be read there before its first token, plus
its answer at the worker's speed. `choose` looks at a few workers: those that hold most of the prompt,
those that consistent hashing names, and the least busy one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gateway.routing.groups import Groups
from gateway.routing.prefix import Prefix
from gateway.routing.residence import Residence
from gateway.routing.ring import Ring
from gateway.routing import speed as S
from gateway.routing.speed import Speed, Speeds
from gateway.types import WorkerId

Reason = Literal["cached", "hashed", "least_busy", "only"]

HOLDERS = 4
OWNERS = 2
TIE = 0.05
SPARE = 1.5
BOUND = 0.0
PRIOR_STEP = 0.05
_DOWN = float("inf")
_MOST_BLOCKS = 2**18
_MOST_TOKENS = 1e6
_BYTES_PER_TOKEN = 4.0


@dataclass(frozen=True, slots=True)
class Ask:
    """What is known of a request.

    Attributes:
        tenant: Whose it is.
        prefix: Its prompt.
        most_tokens: Longest answer; None: no limit.
    """

    tenant: str
    prefix: Prefix
    most_tokens: int | None = None


@dataclass(slots=True)
class Trip:
    """A request at a worker.

    Attributes:
        worker: Where it goes.
        reason: Why there.
        expected_seconds: Until its end.
        cached_tokens: Of its prompt, expected in the worker's cache.
    """

    ask: Ask
    worker: WorkerId
    reason: Reason
    expected_seconds: float
    cached_tokens: float
    slot: int
    known_at: int
    prior: bool
    sent: float = 0.0
    used_before: float = 0.0
    ahead_tokens: float = 0.0
    read_tokens: float = 0.0
    first: float | None = None
    crowd: float = 0.0


@dataclass(slots=True)
class _Place:
    """One worker.

    Attributes:
        running: Requests of ours there.
        others: Requests of others, by its last report.
        reading: Tokens that ours still have to have read, and those that wait of others.
        tells: Whether it tells what its cache held.
    """

    name: WorkerId
    speed: Speed
    running: int = 0
    others: int = 0
    reading: float = 0.0
    waiting: float = 0.0
    up: bool = True
    tells: bool = False
    weight: float = 1.0


class Router:
    """Chooses workers, and learns from what becomes of the requests."""

    def __init__(self) -> None:
        self._residence = Residence(most_blocks=_MOST_BLOCKS, most_tokens=_MOST_TOKENS)
        self._speeds = Speeds()
        self._ring = Ring()
        self._groups = Groups()
        self._slots: dict[WorkerId, int] = {}
        self._places: list[_Place | None] = []
        self._busy: list[float] = []
        self._total = 0
        self._up = 0
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._prior = 0.5

    def join(self, worker: WorkerId) -> None:
        """A worker joined."""
        slot = self._places.index(None) if None in self._places else len(self._places)
        if slot == len(self._places):
            self._places.append(None)
            self._busy.append(_DOWN)
        self._places[slot] = _Place(worker, self._speeds.new())
        self._slots[worker] = slot
        self._residence.join(slot)
        self._residence.most_blocks = max(256, _MOST_BLOCKS // len(self._slots))
        self._ring.join(slot, worker)
        self._update(slot)

    def leave(self, worker: WorkerId) -> None:
        """A worker left."""
        slot = self._slots.pop(worker)
        place = self._places[slot]
        self._places[slot] = None
        self._busy[slot] = _DOWN
        self._residence.leave(slot)
        self._ring.leave(slot)

    def set_up(self, worker: WorkerId, up: bool) -> None:
        slot = self._slots[worker]
        place = self._places[slot]
        place.up = up
        if not up:
            self._residence.clear(slot)
            place.others = 0
            place.waiting = 0
        self._update(slot)

    def report(self, worker: WorkerId, *, running: int, waiting: int, cache_tokens: int | None) -> None:
        """A worker told how many requests it has, of all gateways."""
        slot = self._slots[worker]
        place = self._places[slot]
        place.others = max(0, running + waiting - place.running)
        place.waiting = waiting
        if cache_tokens:
            self._residence.resize(slot, float(cache_tokens))
        self._update(slot)

    def choose(self, ask: Ask, can_take: Callable[[WorkerId], bool]) -> Trip:
        prefix, places, busy = ask.prefix, self._places, self._busy
        get = self._residence.where.get
        holders = [get(block, 0) for block in prefix.hashes]
        found: list[int] = []
        kinds: list[Reason] = []
        seen = 0
        # workers that hold most of the prompt
        for mask in reversed(holders):
            mask &= ~seen
            if not mask:
                continue
            seen |= mask
            if mask & (mask - 1):
                turn = prefix.key % len(places)
                mask = (mask >> turn << turn) or mask
            while mask and len(found) < HOLDERS:
                low = mask & -mask
                mask ^= low
                slot = low.bit_length() - 1
                if places[slot].up and can_take(places[slot].name):
                    found.append(slot)
                    kinds.append("cached")
            if len(found) >= HOLDERS:
                break
        group = prefix.hashes[0] if prefix.hashes else prefix.key
        size = self._groups.size(group, SPARE * self._up)
        owner = -1
        key = prefix.key
        for _ in range(OWNERS):
            slot = self._ring.owner(group, key, size)
            if places[slot].up and can_take(places[slot].name):
                if owner < 0:
                    owner = slot
                if slot not in found:
                    found.append(slot)
                    kinds.append("hashed")
            key = (key * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)
        slot = busy.index(min(busy))
        if slot not in found and places[slot].up and can_take(places[slot].name):
            found.append(slot)
            kinds.append("least_busy")
        speeds = self._speeds
        total_tokens = prefix.length / self._bytes_per_token
        answer = speeds.expected_answer(ask.tenant)
        if ask.most_tokens is not None and ask.most_tokens < answer:
            answer = float(ask.most_tokens)
        best = None
        for slot, kind in zip(found, kinds):
            place = places[slot]
            bit = 1 << slot
            at = len(holders) - 1
            while at >= 0 and not holders[at] & bit:
                at -= 1
            cached = prefix.ends[at] / self._bytes_per_token if at >= 0 else 0.0
            prior = False
            if slot == owner and prefix.continues and cached < 0.5 * total_tokens:
                cached = max(cached, self._prior * total_tokens)
                prior = True
            crowd = place.running + place.others
            speed = place.speed
            seconds = (place.reading + total_tokens - cached) * speed.read.value + (
                answer / speeds.yield_of(ask.tenant, slot) * speed.step.value * (1 + S.CROWDING * crowd)
            )
            score = seconds
            if slot == owner:
                score *= 1 - TIE
            if best is None or score < best[0]:
                best = (score, slot, kind, seconds, cached, at, prior)
        _, slot, kind, seconds, cached, at, prior = best
        return Trip(ask, places[slot].name, kind, seconds, cached, slot, at, prior)

    def begin(self, trip: Trip, now: float) -> None:
        slot = trip.slot
        place = self._places[slot]
        prefix = trip.ask.prefix
        trip.sent = now
        residence = self._residence
        if trip.known_at >= 0:
            trip.used_before = residence.last_used(slot, prefix.hashes[trip.known_at])
        tokens, start = [], 0
        for end in prefix.ends:
            tokens.append((end - start) / self._bytes_per_token)
            start = end
        residence.use(slot, prefix.hashes, tokens, now)
        trip.read_tokens = max(0.0, prefix.length / self._bytes_per_token - trip.cached_tokens)
        place.reading += trip.read_tokens
        trip.ahead_tokens = place.reading
        place.running += 1
        trip.crowd = place.running + place.others
        self._total += 1
        group = prefix.hashes[0] if prefix.hashes else prefix.key
        self._groups.note(group, trip.expected_seconds)
        self._update(slot)

    def first_token(self, trip: Trip, now: float) -> None:
        trip.first = now
        place = self._places[trip.slot]
        if place is None:
            return
        place.reading -= trip.read_tokens
        self._speeds.saw_first(place.speed, now - trip.sent, trip.ahead_tokens)
        self._update(trip.slot)

    def end(self, trip: Trip, now: float, usage) -> None:
        place = self._places[trip.slot]
        if place is None:
            return
        place.running -= 1
        self._total -= 1
        if trip.first is None:
            place.reading -= trip.read_tokens
        if usage is not None:
            prompt, cached, answer, accepted = usage
            prefix = trip.ask.prefix
            if prompt and prefix.length > 1000:
                self._bytes_per_token += 0.02 * (prefix.length / prompt - self._bytes_per_token)
            self._check_cache(trip, place, prompt, cached)
            speeds = self._speeds
            speeds.read_tokens += 0.02 * (prompt - cached - speeds.read_tokens)
            steps = max(1.0, answer - accepted)
            speeds.saw_answer(trip.ask.tenant, trip.slot, tokens=answer, steps=steps)
            if trip.first is not None and steps > 1:
                crowd = (trip.crowd + place.running + 1 + place.others) / 2
                speeds.saw_steps(place.speed, now - trip.first, steps - 1, crowd)
        self._update(trip.slot)

    def _check_cache(self, trip, place, prompt, cached) -> None:
        prefix = trip.ask.prefix
        if trip.prior:
            self._prior += 0.05 * (min(1.0, cached / max(1, prompt)) - self._prior)
        place.tells = place.tells or cached > 0
        if trip.known_at < 0 or not place.tells:
            return
        known = prefix.ends[trip.known_at] / self._bytes_per_token
        if cached < 0.7 * known:
            self._residence.correct(trip.slot, trip.used_before)
        else:
            self._residence.confirm(trip.slot)

    def _update(self, slot: int) -> None:
        place = self._places[slot]
        if not place.up:
            self._busy[slot] = _DOWN
            return
        speeds, speed = self._speeds, place.speed
        crowd = place.running + place.others
        self._up = len(self._slots)
        self._busy[slot] = (place.reading + speeds.read_tokens) * speed.read.value + (
            speeds.answer_tokens / 2 * speed.step.value * (1 + S.CROWDING * crowd)
        )
