"""Which head serves: trials, adoption, rollback, and what ends a trial early."""

from typing import Any

import pytest

from engine.policy import MOST_PAIRS
from engine.worker.heads import RESULTS, Change, Heads
from tests.unit.engine.worker.scripted_heads import Batch, loaded, scripted

WHOLE_TRIAL = 4 * (MOST_PAIRS + 2)


@pytest.fixture
def heads() -> Heads:
    heads = Heads()
    heads.start(loaded(0.6, "old"))
    return heads


def change(heads: Heads, number: str = "1", action: str = "load") -> Change:
    made = Change(number, action, "tests", name=None if action != "load" else "head")
    heads.note(made)
    return made


def offer(heads: Heads, chance: float, version: str = "new", number: str = "1") -> Change:
    made = change(heads, number)
    heads.offer(loaded(chance, version, seed=5), made)
    return made


def begin(heads: Heads) -> Batch:
    """Let what runs now pass, and return a batch that takes part in the trial."""
    Batch("before").play(heads, 1)
    return Batch("x", "y")


def version(heads: Heads) -> str | None:
    return None if heads.serving is None else heads.serving.version


def test_a_better_head_is_adopted_and_the_old_one_guards_it(heads: Heads) -> None:
    made = offer(heads, 0.9)
    assert (made.state, version(heads)) == ("trial", "old")
    assert heads.roles == {"old": "serving", "new": "challenger"}
    batch = begin(heads)

    while made.state == "trial":
        batch.play(heads, 1)

    assert made.state == "adopted"
    assert "pairs" in made.why
    assert heads.roles == {"new": "serving", "old": "guard"}
    batch.play(heads, WHOLE_TRIAL)
    assert heads.roles == {"new": "serving"}
    assert heads.results["adopted"] == 1
    assert heads.results["rolled_back"] == 0


@pytest.mark.parametrize("chance", [0.3, 0.6], ids=["worse", "as good"])
def test_a_head_that_is_no_better_is_not_adopted(heads: Heads, chance: float) -> None:
    made = offer(heads, chance)

    begin(heads).play(heads, WHOLE_TRIAL)

    assert (made.state, version(heads)) == ("kept", "old")
    assert heads.roles == {"old": "serving"}


def test_a_head_that_proves_worse_is_rolled_back(heads: Heads) -> None:
    made = offer(heads, 0.9)
    batch = begin(heads)
    while made.state == "trial":
        batch.play(heads, 1)
    assert heads.serving is not None

    scripted(heads.serving).chance = 0.1
    batch.play(heads, WHOLE_TRIAL)

    assert (made.state, version(heads)) == ("rolled_back", "old")
    assert (heads.results["adopted"], heads.results["rolled_back"]) == (1, 1)


def test_without_a_head_a_new_one_serves_at_once() -> None:
    heads = Heads()

    made = offer(heads, 0.1)

    assert (made.state, version(heads)) == ("adopted", "new")
    assert heads.roles == {"new": "serving"}


def test_the_same_version_changes_nothing(heads: Heads) -> None:
    made = offer(heads, 0.9, "old")

    assert (made.state, heads.roles) == ("unchanged", {"old": "serving"})


def test_a_later_head_replaces_the_one_on_trial(heads: Heads) -> None:
    first = offer(heads, 0.9, "first")
    second = offer(heads, 0.9, "second", "2")

    assert (first.state, second.state) == ("replaced", "trial")
    assert heads.roles == {"old": "serving", "second": "challenger"}


def test_an_error_of_the_challenger_ends_its_trial_and_changes_nothing(
    heads: Heads, caplog: pytest.LogCaptureFixture
) -> None:
    challenger = loaded(0.9, "new")
    made = change(heads)
    heads.offer(challenger, made)
    scripted(challenger).error = RuntimeError("broken")

    begin(heads).play(heads, 8)

    assert (made.state, made.why) == ("failed", "RuntimeError: broken")
    assert heads.roles == {"old": "serving"}
    assert "broken" in caplog.text


class BrokenMemory:
    def note(self, *_: Any) -> None:
        pass

    def forget(self, _: Any) -> None:
        raise RuntimeError("broken")


def test_an_error_of_its_memory_ends_its_trial_too(heads: Heads) -> None:
    memory: Any = BrokenMemory()
    made = change(heads)
    one = loaded(0.9, "new")
    heads.offer(type(one)(one.head, 3, memory, "new"), made)

    heads.forget_requests(["x"])

    assert (made.state, heads.roles) == ("failed", {"old": "serving"})


def test_a_command_unloads_the_head_and_ends_its_trial(heads: Heads) -> None:
    trial, made = offer(heads, 0.9), change(heads, "2", "unload")

    heads.unload(made)
    heads.clear()
    heads.forget_requests(["x"])

    assert (trial.state, made.state, made.version) == ("replaced", "unloaded", "old")
    assert heads.serving is None
    assert heads.roles == {}
    again = change(heads, "3", "unload")
    heads.unload(again)
    assert again.state == "unchanged"


def test_a_command_drops_the_head_beside_the_serving_one(heads: Heads) -> None:
    trial, made = offer(heads, 0.9), change(heads, "2", "forget")

    heads.forget(made)

    assert (trial.state, made.state, made.version) == ("replaced", "forgotten", "new")
    assert heads.roles == {"old": "serving"}
    again = change(heads, "3", "forget")
    heads.forget(again)
    assert again.state == "unchanged"


def test_the_report_names_versions_and_commands(heads: Heads) -> None:
    offer(heads, 0.9)
    begin(heads).play(heads, 16)

    facts = heads.facts()

    assert facts["serving"] == {"version": "old", "name": "head-old", "max_draft_tokens": 3}
    beside = facts["beside"]
    assert isinstance(beside, dict)
    assert (beside["version"], beside["role"], beside["pairs"]) == ("new", "challenger", 6)
    assert facts["changes"] == [
        {
            "id": "1", "action": "load", "by": "tests", "name": "head", "version": "new",
            "state": "trial", "why": "",
        }
    ]  # fmt: skip


def test_only_the_latest_commands_are_reported() -> None:
    heads = Heads()
    for number in range(40):
        heads.unload(change(heads, str(number), "unload"))

    changes = heads.facts()["changes"]

    assert isinstance(changes, list)
    assert len(changes) == 32
    assert set(heads.results) == set(RESULTS)


def test_dropped_heads_are_freed_by_the_loader(heads: Heads) -> None:
    heads.unload(change(heads, action="unload"))
    assert any(heads._dropped)

    heads.free()

    assert heads._dropped == []
