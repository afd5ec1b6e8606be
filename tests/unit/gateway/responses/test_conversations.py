import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.errors import (
    BytesInFlightError,
    GatewayError,
    InvalidRequestError,
    PreviousResponseNotFoundError,
    ResponseNotFoundError,
    ResponsesUnavailableError,
    UnsupportedParameterError,
)
from gateway.protocol import InferenceRequest
from gateway.responses import (
    Bounds,
    ConversationMeters,
    ConversationPolicy,
    Conversations,
    ResponseStore,
    StoredResponse,
    StoreError,
    Swept,
)
from gateway.responses.sqlite import SqliteStore
from tests.integration.waiting import eventually
from tests.unit.gateway.json_log import json_log
from tests.unit.gateway.requests import RESPONSES, request_to

_BOUNDS = Bounds(ttl_seconds=100, tenant_bytes=10_000, total_bytes=10**6)


class World:
    """Conversations, their metrics, and a clock that tests turn."""

    def __init__(
        self, store: ResponseStore | None, *, wait_seconds: float = 5.0, most: int = 10**6
    ) -> None:
        self.now = 1000.0
        self.stored: list[str] = []
        self.lookups: list[str] = []
        self.sweeps: list[tuple[int, int, int]] = []
        self.held: list[int] = []
        self.conversations = Conversations(
            store,
            ConversationPolicy(_BOUNDS, most, wait_seconds=wait_seconds, close_seconds=0.5),
            ConversationMeters(
                self.stored.append, self.lookups.append, lambda *swept: self.sweeps.append(swept)
            ),
            clock=lambda: self.now,
        )

    async def answer(
        self,
        id: str,
        text: str = "answer",
        *,
        tenant: str = "acme",
        status: str = "completed",
        **fields: Any,
    ) -> None:
        """Ask, and keep the answer."""
        request = await self.resume(tenant=tenant, **fields)
        output = [{"type": "message", "content": text}]
        response = {"id": id, "status": status, "output": output}
        await self.conversations.keep(request, tenant, json.dumps(response).encode())

    async def resume(self, *, tenant: str = "acme", **fields: Any) -> InferenceRequest:
        request = request_to(RESPONSES, **{"input": "hi"} | fields)
        return await self.conversations.resume(request, tenant, self.held.append)

    async def input_after(self, id: str, **fields: Any) -> list[Any]:
        """The input of the worker for a request that continues `id`."""
        request = await self.resume(previous_response_id=id, **fields)
        assert request.turn is not None
        whole = request.turn.whole_input(request.members["input"])
        items: list[Any] = json.loads(bytes(whole))
        return items


class BrokenStore:
    """Fails while `reason` is set, and answers puts when `released`."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.released = asyncio.Event()
        self.puts: list[str] = []
        self.is_closed = False

    def _fail(self) -> None:
        if self.reason is not None:
            raise StoreError(self.reason)

    async def put(self, response: StoredResponse) -> bool:
        await self.released.wait()
        self._fail()
        self.puts.append(response.id)
        return True

    async def get(self, tenant: str, id: str, *, oldest: int) -> StoredResponse | None:
        self._fail()
        return None

    async def chain(
        self, tenant: str, id: str, *, oldest: int, most: int, most_bytes: int
    ) -> Sequence[StoredResponse]:
        self._fail()
        return []

    async def delete(self, tenant: str, id: str, *, oldest: int) -> bool:
        self._fail()
        return False

    async def sweep(self, bounds: Bounds, *, now: int) -> Swept:
        self._fail()
        return Swept(0, 0, 0)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(SqliteStore(tmp_path / "responses.sqlite"))
    yield made
    await made.conversations.close()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"type": "message", "content": text}


async def test_a_conversation_goes_on_with_all_turns_in_order(world: World) -> None:
    await world.answer("r1", "one", input="a")
    await world.answer("r2", "two", input=[user("b"), user("c")], previous_response_id="r1")

    found = await world.input_after("r2", input="d")

    assert found == [
        user("a"),
        assistant("one"),
        user("b"),
        user("c"),
        assistant("two"),
        user("d"),
    ]
    assert world.stored == ["stored", "stored"]
    assert world.lookups == ["found", "found"]


async def test_a_conversation_may_branch(world: World) -> None:
    await world.answer("r1", "one", input="a")
    await world.answer("r2", "two", input="b", previous_response_id="r1")

    found = await world.input_after("r1", input="c")

    assert found == [user("a"), assistant("one"), user("c")]


async def test_the_history_counts_as_bytes_of_the_request(world: World) -> None:
    await world.answer("r1", "x" * 1000)

    await world.input_after("r1")

    assert len(world.held) == 1
    assert world.held[0] > 1000


async def test_a_history_without_room_is_refused(world: World) -> None:
    await world.answer("r1")
    request = request_to(RESPONSES, input="hi", previous_response_id="r1")

    def refuse(n_bytes: int) -> None:
        raise BytesInFlightError("full", retry_after_seconds=1.0)

    with pytest.raises(BytesInFlightError):
        await world.conversations.resume(request, "acme", refuse)


@pytest.mark.parametrize("id", ["unknown", "theirs", "", "a\0b", "ä", "x" * 300], ids=repr)
async def test_an_id_that_is_not_kept_for_the_tenant_is_not_found(world: World, id: str) -> None:
    await world.answer("theirs", tenant="other")

    with pytest.raises(PreviousResponseNotFoundError) as caught:
        await world.input_after(id)
    with pytest.raises(ResponseNotFoundError):
        await world.conversations.show("acme", id)
    with pytest.raises(ResponseNotFoundError):
        await world.conversations.delete("acme", id)

    assert caught.value.param == "previous_response_id"
    assert caught.value.code == "previous_response_not_found"
    assert world.lookups == ["not_found"] * 3


async def test_a_conversation_that_lost_a_turn_names_it(world: World) -> None:
    await world.answer("r1")
    await world.answer("r2", previous_response_id="r1")
    await world.conversations.delete("acme", "r1")

    with pytest.raises(PreviousResponseNotFoundError, match="'r1' not found"):
        await world.input_after("r2")


async def test_a_response_is_gone_after_its_time(world: World) -> None:
    await world.answer("r1")
    world.now += 101

    with pytest.raises(PreviousResponseNotFoundError):
        await world.input_after("r1")


async def test_a_long_conversation_is_refused(tmp_path: Path) -> None:
    world = World(SqliteStore(tmp_path / "responses.sqlite"), most=2000)
    await world.answer("r1", "x" * 1500)
    await world.input_after("r1")
    await world.answer("r2", "x" * 1500, previous_response_id="r1")

    with pytest.raises(InvalidRequestError, match="more than") as caught:
        await world.input_after("r2")

    assert caught.value.param == "previous_response_id"
    await world.conversations.close()


@pytest.mark.parametrize("value", [None, 7, {}], ids=repr)
async def test_input_that_is_no_list_cannot_continue(world: World, value: object) -> None:
    await world.answer("r1")

    with pytest.raises(InvalidRequestError) as caught:
        await world.resume(previous_response_id="r1", input=value)

    assert caught.value.param == "input"


async def test_what_is_not_to_be_stored_is_not(world: World) -> None:
    await world.answer("r1")
    await world.answer("r2", store=False)
    await world.answer("r3", store=False, previous_response_id="r1")
    await world.answer("r4", status="failed")
    await world.answer("r5", status="incomplete")

    assert world.stored == ["stored", "stored"]
    assert json.loads(await world.conversations.show("acme", "r5"))["id"] == "r5"
    for id in ("r2", "r3", "r4"):
        with pytest.raises(ResponseNotFoundError):
            await world.conversations.show("acme", id)


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        (None, "too_large"),
        (b'{"id":"r","status":"completed","output":["' + b"x" * 10_000 + b'"]}', "too_large"),
        (b'{"id":"r"}', "failed"),
        ('{"id":"rä","status":"completed","output":[]}'.encode(), "failed"),
    ],
    ids=["not held", "over the bound", "no response", "strange id"],
)
async def test_what_cannot_be_stored_is_counted(
    world: World, response: bytes | None, outcome: str
) -> None:
    request = await world.resume()
    with json_log() as lines:
        await world.conversations.keep(request, "acme", response)

    assert world.stored == [outcome]
    assert [line["event"] for line in lines.lines()] == ["response_not_stored"]


async def test_an_id_is_stored_once(world: World) -> None:
    await world.answer("r1", "first")
    await world.answer("r1", "second")

    assert world.stored == ["stored", "failed"]
    assert b"first" in await world.conversations.show("acme", "r1")


async def test_a_failed_lookup_is_503_and_said_once_for_each_cause() -> None:
    store = BrokenStore()
    world = World(store)
    store.reason = "no route"
    with json_log() as lines:
        for _ in range(3):
            with pytest.raises(ResponsesUnavailableError) as caught:
                await world.input_after("r1")
        with pytest.raises(ResponsesUnavailableError):
            await world.conversations.show("acme", "r1")
        with pytest.raises(ResponsesUnavailableError):
            await world.conversations.delete("acme", "r1")
        store.reason = "disk full"
        with pytest.raises(ResponsesUnavailableError):
            await world.conversations.show("acme", "r1")

    assert caught.value.status == 503
    assert world.lookups == ["failed"] * 6
    assert [line["error"] for line in lines.lines()] == ["no route", "disk full"]


async def test_a_failed_store_costs_no_answer_and_later_answers_no_time() -> None:
    store = BrokenStore()
    world = World(store)
    store.reason = "no route"
    store.released.set()
    await world.answer("r1")
    store.released.clear()

    await world.answer("r2")  # does not wait, though the store does not answer

    store.reason = None
    store.released.set()
    await eventually(lambda: store.puts == ["r2"])
    assert world.stored == ["failed", "stored"]


async def test_a_slow_store_delays_an_answer_only_a_moment_and_still_gets_it() -> None:
    store = BrokenStore()
    world = World(store, wait_seconds=0.01)
    await world.answer("r1")
    stored = list(world.stored)
    store.released.set()
    await world.conversations.close()

    assert stored == []
    assert world.stored == ["stored"]
    assert store.is_closed


async def test_a_client_that_leaves_does_not_cancel_the_storing() -> None:
    store = BrokenStore()
    world = World(store)
    answering = asyncio.create_task(world.answer("r1"))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    answering.cancel()
    await asyncio.wait({answering})
    store.released.set()
    await world.conversations.close()

    assert store.puts == ["r1"]


async def test_what_a_shutdown_loses_is_said() -> None:
    store = BrokenStore()
    world = World(store, wait_seconds=0.01)
    await world.answer("r1")
    with json_log() as lines:
        await world.conversations.close()

    assert [(line["event"], line["responses"]) for line in lines.lines()] == [("responses_lost", 1)]
    assert world.stored == ["failed"]
    assert store.is_closed


async def test_much_stored_at_once_begins_a_sweep(world: World) -> None:
    sweeping = asyncio.create_task(world.conversations.run())
    await eventually(lambda: len(world.sweeps) == 1)
    for number in range(8):
        await world.answer(f"r{number}", "x" * 2000)
        world.now += 1
    await eventually(lambda: len(world.sweeps) > 1 and sum(s[1] for s in world.sweeps) >= 3)
    sweeping.cancel()

    assert world.sweeps[-1][2] <= _BOUNDS.tenant_bytes
    with pytest.raises(ResponseNotFoundError):
        await world.conversations.show("acme", "r0")
    assert await world.conversations.show("acme", "r7")


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"previous_response_id": "r1"}, "previous_response_id"), ({"store": True}, "store")],
    ids=["continue", "store"],
)
async def test_without_a_store_what_needs_it_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(UnsupportedParameterError) as caught:
        await World(None).resume(**fields)

    assert caught.value.param == param


async def test_without_a_store_other_requests_are_forwarded_as_they_are() -> None:
    world = World(None)

    assert (await world.resume()).turn is None
    await world.answer("r1")
    await world.conversations.run()
    await world.conversations.close()
    with pytest.raises(ResponseNotFoundError):
        await world.conversations.show("acme", "r1")
    assert world.stored == []


ITEMS = [user("a"), {"role": "assistant", "content": "b"}, {"type": "tool", "id": "own"}, 7]


async def page(
    world: World, *, after: str | None = None, limit: int = 20, order: Any = "asc"
) -> dict[str, Any]:
    text = await world.conversations.show_items(
        "acme", "resp_1", after=after, limit=limit, order=order
    )
    found: dict[str, Any] = json.loads(text)
    return found


async def test_items_are_listed_as_openai_lists_them(world: World) -> None:
    await world.answer("resp_1", input=ITEMS)

    found = await page(world)

    assert found == {
        "object": "list",
        "data": [
            {
                "id": "msg_1_0",
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "a"}],
            },
            {
                "id": "msg_1_1",
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "b"}],
            },
            {"id": "own", "type": "tool"},
        ],
        "first_id": "msg_1_0",
        "last_id": "own",
        "has_more": False,
    }


async def test_items_are_listed_in_pages(world: World) -> None:
    await world.answer("resp_1", input=ITEMS)

    newest = await page(world, limit=2, order="desc")
    rest = await page(world, limit=2, order="desc", after=newest["last_id"])

    assert [item["id"] for item in newest["data"]] == ["own", "msg_1_1"]
    assert newest["has_more"]
    assert [item["id"] for item in rest["data"]] == ["msg_1_0"]
    assert not rest["has_more"]
    with pytest.raises(InvalidRequestError) as caught:
        await page(world, after="none")
    assert caught.value.param == "after"


async def test_no_items_are_an_empty_list(world: World) -> None:
    await world.answer("resp_1", input=[])

    found = await page(world)

    assert (found["data"], found["first_id"], found["has_more"]) == ([], None, False)


def test_all_errors_have_openais_shape() -> None:
    errors: list[GatewayError] = [
        PreviousResponseNotFoundError("m", param="p"),
        ResponseNotFoundError("m"),
        UnsupportedParameterError("m"),
    ]

    assert [(error.status, error.type, error.code) for error in errors] == [
        (400, "invalid_request_error", "previous_response_not_found"),
        (404, "invalid_request_error", None),
        (400, "invalid_request_error", "unsupported_parameter"),
    ]
