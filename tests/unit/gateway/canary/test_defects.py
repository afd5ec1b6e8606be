"""Sources are shut after too many defects, in all processes, until they are opened."""

from pathlib import Path

import pytest

from gateway.canary.defects import Defects, allowed_mode
from gateway.protocol import SpeculationMode


class Changes(list[tuple[str, str, bool]]):
    """What was told."""

    def note(self, model: str, source: str, shut: bool) -> None:
        self.append((model, source, shut))


def defects(path: Path | None, shut_after: int | None, changes: Changes | None = None) -> Defects:
    told = Changes() if changes is None else changes
    return Defects(path, shut_after=shut_after, on_change=told.note)


@pytest.mark.parametrize(
    ("mode", "shut", "allowed"),
    [
        ("auto", set(), "auto"),
        ("auto", {"suffix"}, "head"),
        ("auto", {"head"}, "suffix"),
        ("auto", {"suffix", "head"}, "off"),
        ("auto", {"native"}, "off"),
        ("suffix", {"suffix"}, "off"),
        ("suffix", {"head", "native"}, "suffix"),
        ("head", {"head"}, "off"),
        ("head", {"suffix"}, "head"),
        ("off", {"suffix"}, "off"),
    ],
)
def test_the_mode_leaves_shut_sources_out(
    mode: SpeculationMode, shut: set[str], allowed: SpeculationMode
) -> None:
    assert allowed_mode(mode, frozenset(shut)) == allowed


@pytest.mark.parametrize("is_shared", [True, False], ids=["file", "memory"])
def test_a_source_is_shut_after_so_many_defects(tmp_path: Path, is_shared: bool) -> None:
    changes = Changes()
    found = defects(tmp_path / "canary.json" if is_shared else None, 2, changes)

    found.add("m", "suffix")
    assert found.shut("m") == frozenset()
    found.add("m", "prediction")

    assert found.shut("m") == {"suffix"}
    assert found.shut("other") == frozenset()
    assert found.as_json() == {"m": {"suffix": {"defects": 2, "shut": True}}}
    found.open("m")
    assert found.shut("m") == frozenset()
    assert changes == [("m", "suffix", True), ("m", "suffix", False)]


def test_nothing_is_shut_by_default_or_for_the_target(tmp_path: Path) -> None:
    never, at_once = defects(None, None), defects(None, 1)
    never.add("m", "head")
    at_once.add("m", "target")

    assert never.shut("m") == at_once.shut("m") == frozenset()


def test_processes_share_counts_and_openings(tmp_path: Path) -> None:
    path, changes = tmp_path / "canary.json", Changes()
    here, there = defects(path, 2), defects(path, 2, changes)
    there.refresh()

    here.add("m", "head")
    there.add("m", "head")
    here.refresh()
    assert here.shut("m") == there.shut("m") == {"head"}
    here.open(None)
    there.refresh()

    assert there.shut("m") == frozenset()
    assert changes == [("m", "head", True), ("m", "head", False)]


def test_only_one_model_may_be_opened(tmp_path: Path) -> None:
    found = defects(tmp_path / "canary.json", 1)
    found.add("a", "head")
    found.add("b", "head")

    found.open("a")

    assert found.shut("a") == frozenset()
    assert found.shut("b") == {"head"}
