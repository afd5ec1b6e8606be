"""Sends each request where it is expected to end first (adr/0047).

The expected time at a worker: reading what is unread there and what its cache lacks of the prompt,
then the steps of the answer, at that worker's speed. `choose` looks at few workers: those that hold
most of the prompt, two that consistent hashing names, and the least busy of all.
"""

from collections.abc import Callable, Sequence
from math import inf

from gateway.routing.groups import Groups
from gateway.routing.least import Least
from gateway.routing.place import Place
from gateway.routing.prefix import Prefix
from gateway.routing.residence import Residence
from gateway.routing.ring import Ring
from gateway.routing.route import Answered, Ask, Reason, Report, Route
from gateway.routing.speed import CROWDING, Speeds
from gateway.types import WorkerId

_HOLDERS = 4
_CREDITS = (0.3, 0.2, 0.0)
"""The share of its time that is forgiven to the first and the second worker that the hash names,
and to others. One that has read most of a known conversation counts as the first. So replicas
agree; with less, conversations wander (adr/0047)."""
_LOYALTY = 1.25
"""A conversation stays, or is supposed to be, at a worker with so many times the requests at which
it gets no others: to read a long prompt again elsewhere is work that an overloaded fleet lacks."""
_SPARE = 3.0
"""A group of prompts is hashed to this many times its share of the workers."""
_UNKNOWN = 0.7
"""A conversation is unknown here if less of its prompt was seen before."""
_FOUND = 0.7
"""A cache that holds less of what was expected has evicted it."""
_PRIOR_STEP = 0.05
_BYTES_STEP = 0.02
_BYTES_PER_TOKEN = 4.0
_LEAST_BYTES = 1024
_READ_TOKENS = 1024
_STEPS = 128
"""Of a request by which workers are compared as a whole."""
_MOST_BLOCKS = 2**18
_LEAST_BLOCKS = 256
_CACHE_TOKENS = 1e6

CanTake = Callable[[WorkerId], bool]


class Router:
    """Chooses workers, and learns from what becomes of the requests.

    Args:
        most_load: A worker with more requests than this many times the mean plus one gets no other
            conversations, and with a quarter more nothing, unless it is the least busy.
    """

    def __init__(self, *, most_load: float) -> None:
        self._most_load = most_load
        self._residence = Residence(most_blocks=_MOST_BLOCKS, most_tokens=_CACHE_TOKENS)
        self._speeds = Speeds()
        self._ring = Ring()
        self._groups = Groups()
        self._slots: dict[WorkerId, int] = {}
        self._places: list[Place | None] = []
        self._busy = Least()
        self._crowd = 0
        self._bytes_per_token = _BYTES_PER_TOKEN
        self._priors = [0.5, 0.1]

    def join(self, worker: WorkerId) -> None:
        """A worker joined; it is not up yet."""
        if None not in self._places:
            self._places.append(None)
            self._busy.append()
        slot = self._places.index(None)
        self._places[slot] = Place(worker, self._speeds.new())
        self._slots[worker] = slot
        self._residence.join(slot)
        self._residence.most_blocks = max(_LEAST_BLOCKS, _MOST_BLOCKS // len(self._slots))
        self._ring.join(slot, worker)

    def leave(self, worker: WorkerId) -> None:
        """A worker left."""
        slot = self._slots.pop(worker)
        self._crowd -= self._place(slot).crowd
        self._places[slot] = None
        self._busy[slot] = inf
        self._residence.leave(slot)
        self._ring.leave(slot)

    def set_up(self, worker: WorkerId, up: bool) -> None:
        """A worker came up, or went down and has lost its cache."""
        slot = self._slots[worker]
        place = self._place(slot)
        if not up:
            self._residence.clear(slot)
            self._crowd -= place.others
            place.others = 0
        place.up = up
        self._update(slot)

    def report(self, worker: WorkerId, report: Report) -> None:
        """A worker told of itself; what it has beyond ours is of other gateways."""
        slot = self._slots[worker]
        place = self._place(slot)
        others = max(0, report.requests - place.running)
        self._crowd += others - place.others
        place.others = others
        if report.cache_tokens is not None:
            self._residence.resize(slot, report.cache_tokens)
        self._update(slot)

    def choose(self, ask: Ask, can_take: CanTake) -> Route | None:
        """Choose a worker.

        Args:
            ask: The request.
            can_take: Whether a worker can take it.

        Returns:
            None if no worker can take it.
        """
        idle = self._least_busy(can_take)
        if idle is None:
            return None
        prefix, where = ask.prefix, self._residence.where
        holders = [where.get(block, 0) for block in prefix.hashes]
        known = _last(holders, -1)
        is_known = known >= 0 and prefix.ends[known] >= _UNKNOWN * prefix.length
        home = known if prefix.continues and is_known else None
        owners = self._owners(prefix, can_take)
        most = self._most_load * (self._crowd / len(self._slots) + 1)
        prompt_tokens = prefix.length / self._bytes_per_token
        steps = self._speeds.expected_steps(ask.tenant, ask.most_tokens)
        best_score, best = inf, (idle, -1, -1, 0.0, 0.0)
        for slot in dict.fromkeys((idle, *owners, *self._holding(holders, prefix.key, can_take))):
            place = self._place(slot)
            rank = owners.index(slot) if slot in owners else -1
            block = _last(holders, 1 << slot)
            # Another replica may have sent it there.
            is_supposed = rank >= 0 and prefix.continues and not is_known
            is_home = block == home or is_supposed
            crowd = place.running + place.others
            if crowd > (_LOYALTY * most if is_home else most) and slot != idle:
                continue
            cached = prefix.ends[block] / self._bytes_per_token if block >= 0 else 0.0
            if is_supposed:
                cached = max(cached, self._priors[rank] * prompt_tokens)
            read_tokens = place.unread_tokens + prompt_tokens - cached
            step_seconds = place.speed.step.value * (1 + CROWDING * crowd)
            seconds = read_tokens * place.speed.read.value + steps * step_seconds
            credit = _CREDITS[0] if block == home else _CREDITS[rank]
            score = seconds * (1 - credit)
            if score < best_score:
                best_score, best = score, (slot, block, rank, cached, seconds)
        slot, block, rank, cached, seconds = best
        place = self._place(slot)
        reason = _reason(cached, prompt_tokens, is_owner=rank >= 0)
        route = Route(ask, place.name, reason, seconds, cached, slot, place, block)
        route.read_tokens = max(1.0, prompt_tokens - cached)
        route.rank = rank if prefix.continues and not is_known else -1
        return route

    def begin(self, route: Route, now: float) -> None:
        """The request is sent."""
        place = self._place(route.slot)
        prefix = route.ask.prefix
        route.sent = now
        if route.block >= 0:
            route.used = self._residence.last_used(route.slot, prefix.hashes[route.block])
        sizes = [
            (end - start) / self._bytes_per_token
            for start, end in zip((0, *prefix.ends), prefix.ends, strict=False)
        ]
        self._residence.use(route.slot, prefix.hashes, sizes, now)
        self._groups.note(prefix.group, route.expected_seconds)
        place.unread_tokens += route.read_tokens
        route.ahead_tokens = place.unread_tokens
        self._count(route.slot, 1)

    def first_token(self, route: Route, now: float) -> None:
        """Its first token came."""
        route.first = now
        place = self._place_of(route)
        if place is not None:
            place.unread_tokens -= route.read_tokens
            route.crowd = place.crowd - 1
            seconds = now - route.sent
            self._speeds.saw_read(place.speed, seconds, ahead_tokens=route.ahead_tokens)
            self._update(route.slot)

    def end(self, route: Route, now: float, answered: Answered | None) -> None:
        """It has ended.

        Args:
            route: As `choose` returned it.
            now: Seconds.
            answered: What the worker counted; None: it failed, or did not count.
        """
        place = self._place_of(route)
        if place is None:
            return
        if route.first is None:
            place.unread_tokens -= route.read_tokens
        if answered is not None and answered.completion_tokens:
            self._learn(route, place, answered, now)
        self._count(route.slot, -1)

    def _learn(self, route: Route, place: Place, answered: Answered, now: float) -> None:
        tokens, prompt = answered.completion_tokens, answered.prompt_tokens
        steps = max(1, tokens - answered.accepted_tokens)
        self._speeds.saw_answer(route.ask.tenant, tokens=tokens, steps=steps)
        if route.first is not None and steps > 1:
            crowd = (route.crowd + place.crowd - 1) / 2
            seconds = now - route.first
            self._speeds.saw_steps(place.speed, seconds, steps=steps - 1, crowd=crowd)
        prefix = route.ask.prefix
        if prompt and prefix.length >= _LEAST_BYTES:
            seen = prefix.length / prompt
            self._bytes_per_token += _BYTES_STEP * (seen - self._bytes_per_token)
        place.tells = place.tells or answered.cached_tokens > 0
        if not place.tells:
            return
        if route.rank >= 0 and prompt:
            found = min(1.0, answered.cached_tokens / prompt)
            self._priors[route.rank] += _PRIOR_STEP * (found - self._priors[route.rank])
        if route.block >= 0:
            if answered.cached_tokens < _FOUND * self._tokens(prefix.ends[route.block]):
                self._residence.correct(route.slot, route.used)
            else:
                self._residence.confirm(route.slot)

    def _holding(self, holders: Sequence[int], key: int, can_take: CanTake) -> list[int]:
        """Workers that hold most of the prompt, the longest part first."""
        found: list[int] = []
        seen = 0
        for holding in reversed(holders):
            if holding == seen:  # those of a block hold the blocks before it, too
                continue
            mask = holding & ~seen
            seen = holding
            if mask & (mask - 1):  # of many, not always the first ones
                turn = key % mask.bit_length()
                mask = mask >> turn << turn
            while mask:
                slot = (mask & -mask).bit_length() - 1
                mask &= mask - 1
                if self._can_take(slot, can_take):
                    found.append(slot)
                    if len(found) == _HOLDERS:
                        return found
        return found

    def _owners(self, prefix: Prefix, can_take: CanTake) -> list[int]:
        """The workers that every replica names for the conversation, most preferred first."""
        size = self._groups.size(prefix.group, _SPARE * len(self._slots))
        first = self._ring.owner(prefix.group, prefix.key, size)
        second = self._ring.owner(prefix.group, prefix.key >> 32, size)
        return [slot for slot in dict.fromkeys((first, second)) if self._can_take(slot, can_take)]

    def _least_busy(self, can_take: CanTake) -> int | None:
        """The worker where a usual request would end first, of those that can take it."""
        slot = self._busy.least()
        if slot is not None and self._can_take(slot, can_take):
            return slot
        able = [slot for slot in self._slots.values() if self._can_take(slot, can_take)]
        return min(able, key=self._busy.__getitem__, default=None)

    def _can_take(self, slot: int, can_take: CanTake) -> bool:
        place = self._places[slot]
        return place is not None and place.up and can_take(place.name)

    def _place(self, slot: int) -> Place:
        place = self._places[slot]
        assert place is not None
        return place

    def _place_of(self, route: Route) -> Place | None:
        """The place of a route's worker; None if it has left."""
        return route.place if self._places[route.slot] is route.place else None

    def _tokens(self, length: int) -> float:
        return length / self._bytes_per_token

    def _count(self, slot: int, requests: int) -> None:
        """Requests of ours were sent to a worker, or ended there."""
        self._place(slot).running += requests
        self._crowd += requests
        self._update(slot)

    def _update(self, slot: int) -> None:
        """A worker's state has changed: compute again how busy it is."""
        place = self._place(slot)
        if not place.up:
            self._busy[slot] = inf
            return
        read_seconds = (place.unread_tokens + _READ_TOKENS) * place.speed.read.value
        step_seconds = place.speed.step.value * (1 + CROWDING * place.crowd)
        self._busy[slot] = read_seconds + _STEPS * step_seconds


def _reason(cached: float, prompt_tokens: float, *, is_owner: bool) -> Reason:
    if cached > prompt_tokens / 2:
        return "cached"
    return "hashed" if is_owner else "idle"


def _last(holders: Sequence[int], mask: int) -> int:
    """The last block of a prompt that any worker in `mask` holds; -1: none.

    A worker that holds a block holds those before it, too.
    """
    if not holders or not holders[0] & mask:
        return -1
    for block in range(len(holders) - 1, -1, -1):
        if holders[block] & mask:
            return block
    return -1
