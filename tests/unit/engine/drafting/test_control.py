from collections.abc import Mapping

import pytest

from engine.drafting import Control
from engine.drafting import read_control as read


def read_control(extra_args: Mapping[str, object] | None) -> Control:
    return read(extra_args, vocabulary=1000)


@pytest.mark.parametrize("extra_args", [None, {}, {"something": "else"}])
def test_a_request_that_asks_for_nothing(extra_args: dict[str, object] | None) -> None:
    assert read_control(extra_args) == Control(tenant="default", most=None, prediction=())


@pytest.mark.parametrize(
    ("mode", "allowed"),
    [
        ("auto", (True, True, True)),
        ("suffix", (True, False, False)),
        ("head", (False, True, False)),
    ],
)
def test_a_mode_names_the_sources(mode: str, allowed: tuple[bool, bool, bool]) -> None:
    control = read_control({"specgate_mode": mode})

    assert (control.suffix, control.head, control.native) == allowed
    assert control.most is None


def test_off_drafts_nothing_whatever_else_it_says() -> None:
    assert read_control({"specgate_mode": "off", "specgate_max_draft_tokens": 9}).most == 0


@pytest.mark.parametrize("extra_args", [None, {"specgate_max_draft_tokens": 9}])
def test_what_the_sampling_asks_for_holds_whatever_it_says(
    extra_args: dict[str, object] | None,
) -> None:
    warm = read(extra_args, vocabulary=1000, temperature=0.7)
    plain = read(extra_args, vocabulary=1000, plain=True)

    assert (warm.temperature, warm.most) == (0.7, None if extra_args is None else 9)
    assert plain.most == 0


@pytest.mark.parametrize(("value", "most"), [(0, 0), (7, 7), (7.0, 7), (10**30, 2**31 - 1)])
def test_the_longest_draft(value: float, most: int) -> None:
    assert read_control({"specgate_max_draft_tokens": value}).most == most


@pytest.mark.parametrize("value", [-1, True, "5", None, float("nan"), [3]])
def test_a_limit_that_makes_no_sense_is_none(value: object) -> None:
    assert read_control({"specgate_max_draft_tokens": value}).most is None


def test_prediction_and_tenant() -> None:
    control = read_control({"specgate_prediction": [1, 2.0, 3], "specgate_tenant": "t"})

    assert (control.prediction, control.tenant) == ((1, 2, 3), "t")


@pytest.mark.parametrize(
    "value", [[], [1, "2"], [-1], "12", [None], 5, [float("inf"), -1], [999, 1000]]
)
def test_a_prediction_that_is_no_list_of_tokens_is_ignored(value: object) -> None:
    assert read_control({"specgate_prediction": value}).prediction == ()


@pytest.mark.parametrize("value", ["", 5, None])
def test_without_a_name_a_request_is_of_the_common_tenant(value: object) -> None:
    assert read_control({"specgate_tenant": value}).tenant == "default"


@pytest.mark.parametrize(
    ("value", "price"),
    [(0, 0.0), (0.25, 0.25), (1, 1.0), (-0.1, None), (1.5, None), (True, None), ("0", None)],
)
def test_a_price_of_its_own(value: object, price: float | None) -> None:
    assert read_control({"specgate_price": value}).price == price


@pytest.mark.parametrize(
    ("value", "agreed"),
    [(1, True), (1.0, True), (True, True), (0, False), ("1", False), ([1], False), (None, False)],
)
def test_a_tenant_agrees_with_1_only(value: object, agreed: bool) -> None:
    control = read_control({"specgate_adapt": value})

    assert control.adapt is agreed


@pytest.mark.parametrize(
    ("value", "indexed"), [(0, False), (0.0, False), (False, False), (1, True), ("0", True)]
)
def test_only_0_keeps_a_text_out_of_the_index(value: object, indexed: bool) -> None:
    assert read_control({"specgate_indexed": value}).indexed is indexed
    assert read_control({"specgate_mode": "off"}).indexed
