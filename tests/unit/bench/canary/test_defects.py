from contextlib import AsyncExitStack
from typing import Any

import pytest

from bench.canary.defects import Case, Found, measure, report
from bench.canary.front import start_front
from tests.fakes.worker import FakeWorker

CASE = Case(share=1.0, one_in=4)


def line(number: int, place: int, source: str = "suffix") -> dict[str, Any]:
    return {"request_id": f"bench-{number}-0f", "place": place, "source": source}


def test_a_defect_is_expected_after_one_over_the_share_of_its_rate() -> None:
    assert Case(share=0.01, one_in=1_000).expected == pytest.approx(100_000)


def test_the_mean_is_over_the_alarms_that_count() -> None:
    found = Found(40, {3: 1, 9: 2, 39: 0}, [line(9, 2), line(3, 1), line(39, 0)], 40, 0)

    told = report(CASE, found, alarms=2)

    assert told["requests_until_alarm"] == 5.0
    assert told["expected_interval"] == pytest.approx([4 - 5.54, 4 + 5.54], abs=0.01)
    assert (told["alarms"], told["misreported"]) == (3, 0)


@pytest.mark.parametrize(
    "wrong",
    [line(4, 1), line(3, 2), line(3, 1, "head"), {"request_id": "x", "place": 1, "source": ""}],
    ids=["request", "place", "source", "stranger"],
)
def test_a_wrong_report_is_counted(wrong: dict[str, Any]) -> None:
    assert report(CASE, Found(8, {3: 1}, [wrong], 8, 0), alarms=1)["misreported"] == 1


def test_without_an_alarm_there_is_no_mean() -> None:
    assert report(CASE, Found(8, {}, [], 8, 0), alarms=1)["requests_until_alarm"] is None


async def test_a_scripted_defect_is_found_with_its_request_place_and_source() -> None:
    async with FakeWorker() as worker, AsyncExitStack() as stack:
        settings = {"share": CASE.share, "most_time": 1.0}
        front = await start_front(stack, worker.port, settings)

        found = await measure(front, CASE, alarms=3)

    told = report(CASE, found, alarms=3)
    assert told["alarms"] == told["defects"] >= 3
    assert told["misreported"] == told["skipped"] == 0
    assert told["asked_again"] == told["requests"]
