"""Conversations on `/v1/responses`: continue one, keep a turn, show and delete what is kept.

A store that fails costs the storing of a response, never the response itself. A request that
continues a conversation cannot be answered without the store.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import msgspec
import structlog

from gateway.errors import (
    InvalidRequestError,
    PreviousResponseNotFoundError,
    ResponseNotFoundError,
    ResponsesUnavailableError,
    UnsupportedParameterError,
    UpstreamError,
    excerpt,
)
from gateway.protocol import InferenceRequest, items_of, read_facts
from gateway.responses.store import Bounds, ResponseStore, StoredResponse, StoreError

log = structlog.get_logger(__name__)
T = TypeVar("T")

StoreOutcome = Literal["stored", "failed", "too_large"]
LookupOutcome = Literal["found", "not_found", "failed"]

_MAX_TURNS = 1_000
"""Longest conversation."""
_ID = re.compile(r"[!-~]{1,200}")
_KEPT = ("completed", "incomplete")
_SWEEP_SECONDS = 60.0
_SWEEP_SHARE = 16
"""A sweep also begins when a process has stored this fraction of a bound since the last one."""
_MAX_PENDING_BYTES = 64 * 2**20
"""Of responses that wait for a slow store; more are not stored."""


@dataclass(frozen=True, slots=True)
class ConversationMeters:
    """Callbacks for the metrics.

    Attributes:
        stored: Called with the outcome of storing a response.
        looked_up: Called with the outcome of a lookup.
        swept: Called with the responses that expired, those evicted, and the bytes left.
    """

    stored: Callable[[StoreOutcome], None]
    looked_up: Callable[[LookupOutcome], None]
    swept: Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class ConversationPolicy:
    """Limits.

    Attributes:
        bounds: How much is kept, and how long.
        max_history_bytes: Largest history of a request.
        wait_seconds: How long the end of an answer waits until it is stored.
        close_seconds: How long a shutdown waits for what is still being stored.
    """

    bounds: Bounds
    max_history_bytes: int
    wait_seconds: float
    close_seconds: float


class Conversations:
    """The conversations of all tenants.

    Args:
        store: Where they are kept; None: nowhere, and requests that need it are refused.
        policy: Limits.
        meters: Metrics.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        store: ResponseStore | None,
        policy: ConversationPolicy,
        meters: ConversationMeters,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._policy = policy
        self._meters = meters
        self._clock = clock
        self._pending: set[asyncio.Task[None]] = set()
        self._pending_bytes = 0
        self._unswept_bytes = 0
        self._sweep_due = asyncio.Event()
        self._failure: str | None = None

    async def resume(
        self, request: InferenceRequest, tenant: str, hold: Callable[[int], None]
    ) -> InferenceRequest:
        """The request with the history of the conversation that it continues.

        Args:
            request: A request to `/v1/responses`.
            tenant: The caller's.
            hold: Called with the bytes of the history before they are used.

        Raises:
            PreviousResponseNotFoundError: The response, or one before it, is not kept.
            UnsupportedParameterError: There is no store.
            InvalidRequestError: The conversation is too long, or `input` has a wrong type.
            ResponsesUnavailableError: The store failed.
        """
        turn = request.turn
        if turn is None:
            return request
        if self._store is None:
            if turn.previous_id is not None:
                raise UnsupportedParameterError(
                    "Previous response cannot be used: this gateway does not store responses.",
                    param="previous_response_id",
                )
            if turn.store:
                raise UnsupportedParameterError(
                    "'store' cannot be true: this gateway does not store responses.", param="store"
                )
            return replace(request, turn=None)
        if turn.previous_id is None:
            return request
        items_of(request.members.get("input"))
        turns = await self._chain(self._store, tenant, turn.previous_id)
        hold(sum(one.size for one in turns))
        history = tuple(
            part for one in turns for part in (one.items, read_facts(one.response).output)
        )
        return replace(request, turn=replace(turn, history=history))

    async def keep(self, request: InferenceRequest, tenant: str, response: bytes | None) -> None:
        """Store the response to a turn; waits a moment for the store, and never fails.

        Args:
            request: What was answered; a turn of a conversation.
            tenant: The caller's.
            response: The complete response object; None: it was too large to be held.
        """
        if self._store is None or request.turn is None or not request.turn.stores:
            return
        if response is None:
            self._lost("too_large", "larger than gateway.request.held_answer_bytes")
            return
        try:
            facts = read_facts(response)
            items = items_of(request.members.get("input"))
        except (UpstreamError, InvalidRequestError) as error:
            self._lost("failed", error.message)
            return
        if facts.status not in _KEPT:
            return
        stored = StoredResponse(
            tenant,
            facts.id,
            request.turn.previous_id,
            int(self._clock()),
            items,
            response,
        )
        if _ID.fullmatch(stored.id) is None:
            self._lost("failed", "an id that no request could name")
        elif stored.size > self._policy.bounds.tenant_bytes:
            self._lost("too_large", "larger than gateway.responses.max_bytes_per_tenant")
        elif self._pending_bytes + stored.size > _MAX_PENDING_BYTES:
            self._lost("failed", "the store is too slow")
        else:
            await self._begin_to_put(self._store, stored)

    async def show(self, tenant: str, id: str) -> bytes:
        """A response object, as the client got it.

        Raises:
            ResponseNotFoundError: It is not kept.
            ResponsesUnavailableError: The store failed.
        """
        return (await self._find(tenant, id)).response

    async def show_items(
        self, tenant: str, id: str, *, after: str | None, limit: int, order: Literal["asc", "desc"]
    ) -> bytes:
        """A page of the items that a request added to its conversation, as OpenAI's list.

        Args:
            tenant: The caller's.
            id: Of the response.
            after: The item before the page; None: the page is the first.
            limit: Most items.
            order: By their place in the request.

        Raises:
            ResponseNotFoundError: The response is not kept.
            InvalidRequestError: There is no item `after`.
            ResponsesUnavailableError: The store failed.
        """
        found = await self._find(tenant, id)
        items = [
            _listed(item, f"{id.removeprefix('resp_')}_{place}")
            for place, item in enumerate(msgspec.json.decode(found.items))
            if isinstance(item, dict)
        ]
        if order == "desc":
            items.reverse()
        ids = [item["id"] for item in items]
        if after is not None and after not in ids:
            raise InvalidRequestError(f"There is no item '{excerpt(after)}'.", param="after")
        begin = 0 if after is None else ids.index(after) + 1
        page = items[begin : begin + limit]
        return msgspec.json.encode(
            {
                "object": "list",
                "data": page,
                "first_id": page[0]["id"] if page else None,
                "last_id": page[-1]["id"] if page else None,
                "has_more": begin + limit < len(items),
            }
        )

    async def delete(self, tenant: str, id: str) -> None:
        """Delete a response; what continued it can no longer be continued.

        Raises:
            ResponseNotFoundError: It is not kept.
            ResponsesUnavailableError: The store failed.
        """
        is_deleted = False
        if self._store is not None and _ID.fullmatch(id) is not None:
            is_deleted = await self._ask(self._store.delete(tenant, id, oldest=self._oldest))
        self._meters.looked_up("found" if is_deleted else "not_found")
        if not is_deleted:
            raise _not_found(id)

    async def run(self) -> None:
        """Remove what is too old or too much, until cancelled."""
        if self._store is None:
            return
        while True:
            self._sweep_due.clear()
            self._unswept_bytes = 0
            try:
                swept = await self._store.sweep(self._policy.bounds, now=int(self._clock()))
            except StoreError as error:
                self._note(str(error))
            else:
                self._note(None)
                self._meters.swept(swept.expired, swept.evicted, swept.kept_bytes)
            with suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_SECONDS):
                    await self._sweep_due.wait()

    async def close(self) -> None:
        """Finish storing, then close the store."""
        if self._pending:
            _, unfinished = await asyncio.wait(self._pending, timeout=self._policy.close_seconds)
            for task in unfinished:
                task.cancel()
                self._meters.stored("failed")
            if unfinished:
                await asyncio.wait(unfinished)
                log.error("responses_lost", responses=len(unfinished), error="shutdown")
        if self._store is not None:
            with suppress(StoreError):  # nothing is left to be stored
                await self._store.close()

    @property
    def _oldest(self) -> int:
        return int(self._clock()) - self._policy.bounds.ttl_seconds

    async def _chain(self, store: ResponseStore, tenant: str, id: str) -> list[StoredResponse]:
        """The response and all before it, oldest first."""
        most_bytes = self._policy.max_history_bytes
        turns: list[StoredResponse] = []
        if _ID.fullmatch(id) is not None:
            found = store.chain(
                tenant, id, oldest=self._oldest, most=_MAX_TURNS, most_bytes=most_bytes
            )
            turns = list(await self._ask(found))
        if len(turns) > _MAX_TURNS or sum(one.size for one in turns) > most_bytes:
            self._meters.looked_up("found")
            raise InvalidRequestError(
                f"The conversation has more than {_MAX_TURNS} turns or {most_bytes} bytes.",
                param="previous_response_id",
            )
        missing = turns[0].previous_id if turns else id
        if missing is not None:
            self._meters.looked_up("not_found")
            raise PreviousResponseNotFoundError(
                f"Previous response with id '{excerpt(missing)}' not found.",
                param="previous_response_id",
            )
        self._meters.looked_up("found")
        return turns

    async def _find(self, tenant: str, id: str) -> StoredResponse:
        found = None
        if self._store is not None and _ID.fullmatch(id) is not None:
            found = await self._ask(self._store.get(tenant, id, oldest=self._oldest))
        self._meters.looked_up("not_found" if found is None else "found")
        if found is None:
            raise _not_found(id)
        return found

    async def _ask(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except StoreError as error:
            self._note(str(error))
            self._meters.looked_up("failed")
            raise ResponsesUnavailableError(
                "Stored responses are not available at the moment.", retry_after_seconds=1.0
            ) from error

    async def _begin_to_put(self, store: ResponseStore, response: StoredResponse) -> None:
        """Store it in a task of its own, which no client's disconnect cancels."""
        task = asyncio.create_task(self._put(store, response), name="store-response")
        self._pending.add(task)
        self._pending_bytes += response.size

        def end(task: asyncio.Task[None]) -> None:
            self._pending.discard(task)
            self._pending_bytes -= response.size

        task.add_done_callback(end)
        if self._failure is None:  # else the answer would wait in vain
            await asyncio.wait({task}, timeout=self._policy.wait_seconds)

    async def _put(self, store: ResponseStore, response: StoredResponse) -> None:
        try:
            is_new = await store.put(response)
        except StoreError as error:
            self._note(str(error))
            self._meters.stored("failed")
            return
        self._note(None)
        if not is_new:
            self._lost("failed", "its id is taken")
            return
        self._meters.stored("stored")
        bounds = self._policy.bounds
        self._unswept_bytes += response.size
        if self._unswept_bytes * _SWEEP_SHARE > min(bounds.tenant_bytes, bounds.total_bytes):
            self._sweep_due.set()

    def _lost(self, outcome: StoreOutcome, reason: str) -> None:
        """A single response is not stored, for a reason of its own."""
        log.warning("response_not_stored", reason=reason)
        self._meters.stored(outcome)

    def _note(self, failure: str | None) -> None:
        """Log the state of the store when it changes."""
        if failure == self._failure:
            return
        self._failure = failure
        if failure is None:
            log.info("responses_store_up")
        else:
            log.error("responses_store_failed", error=failure)


def _not_found(id: str) -> ResponseNotFoundError:
    return ResponseNotFoundError(f"Response with id '{excerpt(id)}' not found.")


def _listed(item: dict[str, Any], place: str) -> dict[str, Any]:
    """An item of a request as OpenAI lists it: with type, id and a list of content."""
    kind = item.get("type", "message")
    prefix = "msg" if kind == "message" else "item"
    listed = {"id": f"{prefix}_{place}", "type": kind, **item}
    if kind == "message" and isinstance(item.get("content"), str):
        part = "output_text" if item.get("role") == "assistant" else "input_text"
        listed["content"] = [{"type": part, "text": item["content"]}]
    return listed
