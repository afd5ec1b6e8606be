"""What the compiled batch promises to Python, where the drafter does not ask for it."""

import pytest

from engine.drafting import Control, Source, SuffixSource
from engine.drafting._core import Batch
from engine.drafting.origin import PREDICTION, SUFFIX, Origin
from engine.policy import ForwardDrafter, Gate, Load
from engine.suffix import Index, SuffixIndex
from tests.unit.engine.drafting.scripted import FREE, PROMPT, Scripted


def make(source: Source | Index | None) -> Batch:
    return Batch(
        Gate(FREE),
        source,
        native=ForwardDrafter(0, calibrated=False),
        head=ForwardDrafter(0, calibrated=True),
        origin=Origin,
    )


def begin(batch: Batch, name: str) -> None:
    batch.begin(name, Control(), most=8, left=1000)
    batch.join(name)


@pytest.mark.parametrize(
    ("price", "length", "origin"),
    [
        (0.95, 0, None),
        (0.9, 1, Origin(PREDICTION)),
        (0.55, 2, Origin(PREDICTION)),
        (0.2, 3, Origin(PREDICTION, SUFFIX, 2)),
        (0.0, 4, Origin(PREDICTION, SUFFIX, 2)),
    ],
    ids=str,
)
def test_a_draft_is_cut_where_it_no_longer_pays_and_names_who_is_left(
    source: Scripted, price: float, length: int, origin: Origin | None
) -> None:
    source.drafts["r"] = ([1, 2, 3, 4], [0.9, 0.6, 0.5, 0.1])
    source.predicted = 2
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r")
    batch.enter(["r"], [[1]], Load(0))
    batch.ask()

    assert batch.cut(price) == ([[1, 2, 3, 4][:length]], [origin], 1, min(length, 1))


def test_who_is_unknown_is_named_and_nothing_else_happens(source: Scripted) -> None:
    source.running["known"] = []
    batch = make(source)
    begin(batch, "known")

    names = ["new", "known", "idle", "other"]
    assert batch.enter(names, [[1], [2], [], [3]], Load(0)) == ["new", "other"]

    batch.ask()
    assert source.running["known"] == []


def test_who_has_not_begun_cannot_join() -> None:
    with pytest.raises(KeyError):
        make(None).join("r")


def test_an_end_says_whether_the_source_is_to_be_told(source: Scripted) -> None:
    batch = make(source)
    begin(batch, "joined")
    batch.begin("alone", Control(), most=8, left=9)

    assert [batch.end(name) for name in ("joined", "alone", "unknown")] == [True, False, False]
    assert batch.running == []


def test_an_end_in_mid_step_leaves_nothing_of_the_step(source: Scripted) -> None:
    source.drafts["r"] = ([1], [0.9])
    source.running["r"] = []
    batch = make(source)
    begin(batch, "r")
    batch.enter(["r"], [[1]], Load(0))
    batch.ask()
    batch.end("r")

    assert batch.cut(0.0) == ([[]], [None], 0, 0)


def test_an_index_can_be_asked_through_python_and_again_itself() -> None:
    source = SuffixSource(SuffixIndex(1 << 22, salt=1))
    source.index.start("r", "default", PROMPT)
    batch = make(source)
    begin(batch, "r")
    drafts = []
    for asked, sampled in ((source, [11, 12]), (source.core, [13]), (source, [14])):
        batch.source = asked
        batch.enter(["r"], [sampled], Load(0))
        batch.ask()
        drafts += batch.cut(0.0)[0]

    assert batch.source is source
    text = [*PROMPT[2:], 11, 12]
    assert drafts == [text[:8], text[1:9], text[2:10]]
