"""The interface of the compiled batch, where the drafter's own tests do not reach."""

from collections.abc import Sequence

import pytest

from engine._core.drafting import Batch
from engine.drafting import Control, HeadPass
from engine.drafting.origin import PREDICTION, SUFFIX, Origin
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import SuffixIndex
from tests.unit.engine.drafting.scripted import FREE, suffix

FOLLOWED = (50, 51, 52)


def drafted(
    batch: Batch, native: None, head: HeadPass | None
) -> tuple[list[list[int]], list[Origin | None], str, int]:
    batch.ask()
    return batch.draft(native, head)


def make(source: SuffixIndex | None, *, head_most: int = 0) -> Batch:
    return Batch(
        Gate(FREE),
        None if source is None else source.core,
        native=ForwardDrafter(0, calibrated=False),
        head=ForwardDrafter(head_most, calibrated=True),
        origin=Origin,
    )


def begun(name: str = "r", control: Control = Control()) -> Batch:  # noqa: B008  # frozen
    """A batch with a request, which the index knows."""
    source = suffix()
    source.start(name, "default", [*FOLLOWED, 53, 54])
    source.predict(name, FOLLOWED)
    batch = make(source)
    batch.begin(name, control, most=4, left=1000, known=3)
    batch.join(name)
    return batch


def test_a_draft_is_cut_at_a_price_of_its_own_and_names_the_sources_that_are_left() -> None:
    """The prediction gives two more tokens, then the prompt goes on."""
    index = suffix()
    index.start("r", "default", [*FOLLOWED, 53, 54])
    index.predict("r", FOLLOWED)
    index.extend("r", [50])
    survival = index.propose("r", 4).survival
    found = []
    for price in survival:
        batch = begun(control=Control(price=price))
        batch.enter(["r"], [[50]], [0] * len(["r"]), Load(0))
        tokens, (origin,), decision, *_ = drafted(batch, None, None)
        found.append((tokens, origin, decision))

    mixed = Origin(PREDICTION, SUFFIX, 2)
    assert found == [
        ([[51]], Origin(PREDICTION), "drafted"),
        ([[51, 52]], Origin(PREDICTION), "drafted"),
        ([[51, 52, 53]], mixed, "drafted"),
        ([[51, 52, 53, 54]], mixed, "drafted"),
    ]


def test_unknown_requests_are_named_and_nothing_else_happens() -> None:
    batch = begun("known")

    names = ["new", "known", "idle", "other"]
    assert batch.enter(names, [[1], [50], [], [3]], [0] * len(names), Load(0)) == ["new", "other"]
    assert drafted(batch, None, None)[0] == [[]] * 4

    batch.enter(["known"], [[50]], [0] * len(["known"]), Load(0))
    assert drafted(batch, None, None)[0] == [[51, 52, 53, 54]]


def test_a_request_that_has_not_begun_cannot_join() -> None:
    with pytest.raises(KeyError):
        make(None).join("r")


def test_an_end_says_whether_the_index_has_to_be_told() -> None:
    batch = begun("joined")
    batch.begin("alone", Control(), most=8, left=9, known=3)

    assert [batch.end(name) for name in ("joined", "alone", "unknown")] == [True, False, False]
    assert batch.running == []


def test_an_end_in_the_middle_of_a_step_drops_the_step() -> None:
    batch = begun()
    batch.enter(["r"], [[50]], [0] * len(["r"]), Load(0))
    batch.end("r")

    assert drafted(batch, None, None)[:3] == ([[]], [None], "unknown")


def test_a_request_that_ends_while_the_head_runs_is_an_error() -> None:
    batch = make(None, head_most=3)
    batch.begin("r", Control(), most=8, left=1000, known=3)
    batch.enter(["r"], [[1]], [0] * len(["r"]), Load(0))

    def ending(sequences: Sequence[int], /) -> list[tuple[list[int], list[float]]]:
        batch.end("r")
        return [([7], [0.9]) for _ in sequences]

    with pytest.raises(ValueError, match="proposal for each sequence"):
        drafted(batch, None, ending)


def test_context_tokens_grow_with_what_is_generated() -> None:
    batch = make(None)
    for name, known in (("a", 30), ("b", 500)):
        batch.begin(name, Control(), most=8, left=9, known=known)

    def context_tokens(names: list[str], sampled: list[list[int]], others: int) -> int:
        batch.enter(names, sampled, [0] * len(names), Load(0, context_tokens=others))
        return drafted(batch, None, None)[3]

    assert context_tokens(["a", "b"], [[1, 2], [3]], 0) == 32 + 501
    assert context_tokens(["b", "idle", "a"], [[4], [], [5]], 70) == 502 + 33 + 70
    assert context_tokens(["a"], [[6]], 0) == 34


def test_the_price_is_that_of_the_latest_step_with_proposals() -> None:
    batch = begun()
    batch.enter(["r"], [[50]], [0] * len(["r"]), Load(0))
    drafted(batch, None, None)
    price = batch.price
    batch.enter(["r"], [[99]], [0] * len(["r"]), Load(0))
    drafted(batch, None, None)

    assert batch.price == price > 0.0
