"""What the compiled batch promises to Python, where the drafter does not ask for it."""

from collections.abc import Sequence

import pytest

from engine._core.drafting import Batch
from engine.drafting import Control, Source, SuffixSource
from engine.drafting.origin import PREDICTION, SUFFIX, Origin
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import Index, SuffixIndex
from tests.unit.engine.drafting.scripted import FREE, PROMPT, Scripted


def make(source: Source | Index | None, *, head_most: int = 0) -> Batch:
    return Batch(
        Gate(FREE),
        source,
        native=ForwardDrafter(0, calibrated=False),
        head=ForwardDrafter(head_most, calibrated=True),
        origin=Origin,
    )


def begin(batch: Batch, name: str, control: Control = Control()) -> None:  # noqa: B008  # frozen
    batch.begin(name, control, most=8, left=1000, known=3)
    batch.join(name)


@pytest.mark.parametrize(
    ("price", "length", "origin", "verdict"),
    [
        (0.95, 0, None, "priced_out"),
        (0.9, 1, Origin(PREDICTION), "drafted"),
        (0.55, 2, Origin(PREDICTION), "drafted"),
        (0.2, 3, Origin(PREDICTION, SUFFIX, 2), "drafted"),
        (0.0, 4, Origin(PREDICTION, SUFFIX, 2), "drafted"),
    ],
    ids=str,
)
def test_a_draft_is_cut_where_it_no_longer_pays_and_names_who_is_left(
    source: Scripted, price: float, length: int, origin: Origin | None, verdict: str
) -> None:
    source.drafts["r"] = ([1, 2, 3, 4], [0.9, 0.6, 0.5, 0.1])
    source.predicted = 2
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r", Control(price=price))
    batch.enter(["r"], [[1]], Load(0))

    tokens, origins, *found = batch.draft(None, None)

    assert (tokens, origins) == ([[1, 2, 3, 4][:length]], [origin])
    assert found[:2] == [verdict, False]


def test_who_is_unknown_is_named_and_nothing_else_happens(source: Scripted) -> None:
    source.running["known"] = []
    batch = make(source)
    begin(batch, "known")

    names = ["new", "known", "idle", "other"]
    assert batch.enter(names, [[1], [2], [], [3]], Load(0)) == ["new", "other"]

    batch.draft(None, None)
    assert source.running["known"] == []


def test_who_has_not_begun_cannot_join() -> None:
    with pytest.raises(KeyError):
        make(None).join("r")


def test_an_end_says_whether_the_source_is_to_be_told(source: Scripted) -> None:
    batch = make(source)
    begin(batch, "joined")
    batch.begin("alone", Control(), most=8, left=9, known=3)

    assert [batch.end(name) for name in ("joined", "alone", "unknown")] == [True, False, False]
    assert batch.running == []


def test_an_end_in_mid_step_leaves_nothing_of_the_step(source: Scripted) -> None:
    source.drafts["r"] = ([1], [0.9])
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r")
    batch.enter(["r"], [[1]], Load(0))
    batch.end("r")

    assert batch.draft(None, None)[:3] == ([[]], [None], "unknown")


def test_a_request_that_ends_while_the_head_runs_gets_no_draft_of_it(source: Scripted) -> None:
    source.running["r"] = []
    batch = make(source, head_most=3)
    begin(batch, "r")
    batch.enter(["r"], [[1]], Load(0))

    def ending(rows: Sequence[int]) -> list[tuple[list[int], list[float]]]:
        batch.end("r")
        return [([7], [0.9]) for _ in rows]

    with pytest.raises(ValueError, match="guess for each row"):
        batch.draft(None, ending)


def test_the_tokens_of_rows_are_counted_as_they_grow() -> None:
    batch = make(None)
    for name, known in (("a", 30), ("b", 500)):
        batch.begin(name, Control(), most=8, left=9, known=known)

    def context_tokens(names: list[str], sampled: list[list[int]], others: int) -> int:
        batch.enter(names, sampled, Load(0, context_tokens=others))
        return batch.draft(None, None)[4]

    assert context_tokens(["a", "b"], [[1, 2], [3]], 0) == 32 + 501
    assert context_tokens(["b", "idle", "a"], [[4], [], [5]], 70) == 502 + 33 + 70
    assert context_tokens(["a"], [[6]], 0) == 34


def test_the_price_is_that_of_the_latest_step_that_had_guesses(source: Scripted) -> None:
    source.drafts["r"] = ([1], [0.9])
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r")
    batch.enter(["r"], [[1]], Load(0))
    batch.draft(None, None)
    price = batch.price

    source.drafts.clear()
    batch.enter(["r"], [[1]], Load(0))
    batch.draft(None, None)

    assert batch.price == price > 0.0


def test_a_step_says_whether_it_has_changed_what_is_done_by_and_large(source: Scripted) -> None:
    """Guesses that never pay: it is told once that the gate is shut."""
    source.drafts["r"] = ([1], [0.5])
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r", Control(price=0.9))
    turned = []
    for _ in range(300):
        batch.enter(["r"], [[1]], Load(0))
        turned.append(batch.draft(None, None)[3])

    assert sum(turned) == 1
    assert not batch.is_open


def test_an_index_can_be_asked_through_python_and_again_itself() -> None:
    source = SuffixSource(SuffixIndex(1 << 22, salt=1))
    source.index.start("r", "default", PROMPT)
    batch = make(source)
    begin(batch, "r")
    drafts = []
    for asked, sampled in ((source, [11, 12]), (source.core, [13]), (source, [14])):
        batch.source = asked
        batch.enter(["r"], [sampled], Load(0))
        drafts += batch.draft(None, None)[0]

    assert batch.source is source
    text = [*PROMPT[2:], 11, 12]
    assert drafts == [text[:8], text[1:9], text[2:10]]
