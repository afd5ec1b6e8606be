import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.keys import bearer, issue_key
from tests.fakes.worker import FakeWorker
from tests.unit.gateway.application import Application, running

PATH = "/v1/responses"


async def ask(gateway: Application, **fields: Any) -> dict[str, Any]:
    answer = await gateway.client.post(PATH, json={"input": "hi"} | fields)
    assert answer.status_code == 200
    body: dict[str, Any] = answer.json()
    return body


def refused(answer: httpx.Response) -> tuple[int, str | None, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


async def test_a_response_is_shown_as_it_was_sent(gateway: Application) -> None:
    sent = await gateway.client.post(PATH, json={"input": "hi"})

    shown = await gateway.client.get(f"{PATH}/{sent.json()['id']}")

    assert shown.content == sent.content
    assert shown.headers["content-type"] == "application/json"
    assert (shown.json()["store"], shown.json()["previous_response_id"]) == (True, None)


async def test_a_deleted_response_is_gone(gateway: Application) -> None:
    id = (await ask(gateway))["id"]

    deleted = await gateway.client.delete(f"{PATH}/{id}")

    assert deleted.json() == {"id": id, "object": "response", "deleted": True}
    assert refused(await gateway.client.get(f"{PATH}/{id}")) == (404, None, None)
    assert refused(await gateway.client.delete(f"{PATH}/{id}")) == (404, None, None)
    again = await gateway.client.post(PATH, json={"input": "hi", "previous_response_id": id})
    assert refused(again) == (400, "previous_response_not_found", "previous_response_id")


async def test_input_items_are_listed(gateway: Application) -> None:
    id = (await ask(gateway, input=["a", {"role": "user", "content": "b"}]))["id"]

    listed = await gateway.client.get(f"{PATH}/{id}/input_items", params={"order": "asc"})

    assert [item["content"][0]["text"] for item in listed.json()["data"]] == ["b"]


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": 0}, "limit"), ({"limit": 101}, "limit"), ({"order": "up"}, "order")],
    ids=str,
)
async def test_a_wrong_query_is_named(
    gateway: Application, query: dict[str, str], param: str
) -> None:
    answer = await gateway.client.get(f"{PATH}/r/input_items", params=query)

    assert answer.status_code == 400
    assert param in answer.json()["error"]["param"]


async def test_a_stored_response_is_not_streamed(gateway: Application) -> None:
    id = (await ask(gateway))["id"]

    answer = await gateway.client.get(f"{PATH}/{id}", params={"stream": "true"})

    assert refused(answer) == (400, "unsupported_parameter", "stream")


async def test_tenants_never_see_each_others(tmp_path: Path, worker: FakeWorker) -> None:
    keys = tmp_path / "keys"
    mine, same, theirs = (issue_key(keys, tenant=name) for name in ("acme", "acme", "other"))
    async with running(worker.url, keys={"file": keys}) as gateway:
        sent = await gateway.client.post(PATH, json={"input": "hi"}, headers=bearer(mine))
        path = f"{PATH}/{sent.json()['id']}"
        follow = {"input": "hi", "previous_response_id": sent.json()["id"]}

        async def statuses(headers: dict[str, str]) -> list[int]:
            client = gateway.client
            return [
                (await client.get(path, headers=headers)).status_code,
                (await client.get(f"{path}/input_items", headers=headers)).status_code,
                (await client.post(PATH, json=follow, headers=headers)).status_code,
                (await client.delete(path, headers=headers)).status_code,
            ]

        assert await statuses({}) == [401, 401, 401, 401]
        assert await statuses(bearer(theirs)) == [404, 404, 400, 404]
        assert await statuses(bearer(same)) == [200, 200, 200, 200]


async def test_without_a_store_nothing_is_kept_and_nothing_is_touched(worker: FakeWorker) -> None:
    async with running(worker.url, responses={"store": "off"}) as gateway:
        sent = await ask(gateway)
        kept = await gateway.client.get(f"{PATH}/{sent['id']}")
        follow = {"input": "hi", "previous_response_id": sent["id"]}
        refusals = [
            refused(await gateway.client.post(PATH, json=body))
            for body in (follow, {"input": "hi", "store": True})
        ]

    assert "store" not in sent
    assert refused(kept) == (404, None, None)
    assert refusals == [
        (400, "unsupported_parameter", "previous_response_id"),
        (400, "unsupported_parameter", "store"),
    ]
    assert json.loads(worker.requests[0].body)["input"] == "hi"
