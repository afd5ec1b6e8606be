"""What both stores promise."""

import asyncio

from gateway.responses import Bounds, ResponseStore, StoredResponse

_PLENTY = Bounds(ttl_seconds=1000, tenant_bytes=10**6, total_bytes=10**6)


def response(
    id: str,
    previous_id: str | None = None,
    *,
    tenant: str = "acme",
    created: int = 1000,
    text: bytes = b'{"a":"\xc3\xa4\\u0000"}',
) -> StoredResponse:
    return StoredResponse(tenant, id, previous_id, created, b"[1]", text)


async def ids(store: ResponseStore, *wanted: str, tenant: str = "acme") -> list[str]:
    found = [await store.get(tenant, id, oldest=0) for id in wanted]
    return [one.id for one in found if one is not None]


async def test_a_response_comes_back_as_it_was(store: ResponseStore) -> None:
    put = response("r1", "r0")

    assert await store.put(put)
    assert await store.get("acme", "r1", oldest=1000) == put


async def test_a_response_is_not_found_by_others_nor_after_its_time(store: ResponseStore) -> None:
    await store.put(response("r1"))

    assert await store.get("other", "r1", oldest=0) is None
    assert await store.get("acme", "r1", oldest=1001) is None
    assert await store.get("acme", "r2", oldest=0) is None
    assert not await store.delete("other", "r1", oldest=0)
    assert not await store.chain("other", "r1", oldest=0, most=9, most_bytes=999)


async def test_two_tenants_may_have_the_same_id(store: ResponseStore) -> None:
    assert await store.put(response("r1", text=b"mine"))
    assert await store.put(response("r1", text=b"theirs", tenant="other"))

    found = await store.get("acme", "r1", oldest=0)
    assert found is not None
    assert found.response == b"mine"


async def test_an_id_is_never_overwritten(store: ResponseStore) -> None:
    await store.put(response("r1", text=b"first"))

    assert not await store.put(response("r1", text=b"second"))
    found = await store.get("acme", "r1", oldest=0)
    assert found is not None
    assert found.response == b"first"


async def test_a_deleted_response_is_gone(store: ResponseStore) -> None:
    await store.put(response("r1"))

    assert await store.delete("acme", "r1", oldest=0)
    assert not await store.delete("acme", "r1", oldest=0)
    assert await ids(store, "r1") == []


async def test_a_chain_is_oldest_first_and_of_one_tenant(store: ResponseStore) -> None:
    for id, previous in (("r1", None), ("r2", "r1"), ("r3", "r2"), ("branch", "r1")):
        await store.put(response(id, previous))
        await store.put(response(id, None, tenant="other"))

    chain = await store.chain("acme", "r3", oldest=0, most=9, most_bytes=10**6)

    assert [(one.tenant, one.id) for one in chain] == [
        ("acme", "r1"),
        ("acme", "r2"),
        ("acme", "r3"),
    ]


async def test_a_chain_ends_before_what_is_too_old(store: ResponseStore) -> None:
    await store.put(response("r1", created=10))
    await store.put(response("r2", "r1", created=20))

    chain = await store.chain("acme", "r2", oldest=15, most=9, most_bytes=10**6)

    assert [one.id for one in chain] == ["r2"]


async def test_a_chain_has_one_response_more_than_allowed(store: ResponseStore) -> None:
    """So that the caller sees that it is too long; also if it is a circle."""
    await store.put(response("r1", "r2"))
    await store.put(response("r2", "r1"))

    by_count = await store.chain("acme", "r2", oldest=0, most=5, most_bytes=10**6)
    by_bytes = await store.chain("acme", "r2", oldest=0, most=99, most_bytes=response("").size)

    assert [one.id for one in by_count] == ["r1", "r2", "r1", "r2", "r1", "r2"]
    assert [one.id for one in by_bytes] == ["r1", "r2"]


async def test_a_sweep_removes_what_is_too_old(store: ResponseStore) -> None:
    await store.put(response("old", created=100))
    await store.put(response("young", created=200))

    swept = await store.sweep(_PLENTY, now=1150)

    assert (swept.expired, swept.evicted) == (1, 0)
    assert swept.kept_bytes == response("").size
    assert await ids(store, "old", "young") == ["young"]


async def test_a_sweep_removes_a_tenants_oldest_first_and_spares_others(
    store: ResponseStore,
) -> None:
    size = response("").size
    for number in range(4):
        await store.put(response(f"r{number}", created=1000 + number))
    await store.put(response("theirs", tenant="other", created=1))

    swept = await store.sweep(Bounds(10**6, tenant_bytes=2 * size, total_bytes=10**6), now=2000)

    assert (swept.evicted, swept.kept_bytes) == (2, 3 * size)
    assert await ids(store, "r0", "r1", "r2", "r3") == ["r2", "r3"]
    assert await ids(store, "theirs", tenant="other") == ["theirs"]


async def test_a_sweep_removes_the_oldest_of_all(store: ResponseStore) -> None:
    size = response("").size
    await store.put(response("theirs", tenant="other", created=1))
    for number in range(3):
        await store.put(response(f"r{number}"))  # the same second: the first stored goes first

    bounds = Bounds(10**6, tenant_bytes=10**6, total_bytes=2 * size)
    swept = await store.sweep(bounds, now=2000)

    assert (swept.evicted, swept.kept_bytes) == (2, 2 * size)
    assert await ids(store, "r0", "r1", "r2") == ["r1", "r2"]
    assert await ids(store, "theirs", tenant="other") == []


async def test_many_calls_at_once_are_all_answered(store: ResponseStore) -> None:
    puts = [store.put(response(f"r{number}", text=b"x" * 10_000)) for number in range(50)]

    assert all(await asyncio.gather(*puts))
    assert len(await ids(store, *(f"r{number}" for number in range(50)))) == 50
