from typing import Any

import pytest

from engine.worker.verdicts import describe_sources

_STEPS = {"drafted": 0, "priced_out": 0, "unknown": 0, "limited": 0, "paused": 0, "failed": 0}
_SERVING = {"version": "0a", "name": "shipped", "max_draft_tokens": 3}


def gate(*, paused: str = "", limited: bool = False, **steps: int) -> dict[str, Any]:
    return {
        "price": 0.4375,
        "recent_decisions": {**_STEPS, **steps},
        "fallbacks": {"ValueError": 3},
        "limited": limited,
        "max_batch_size": 8,
        "sources": {
            name: {"open": int(name != paused), "paused": name == paused}
            for name in ("suffix", "head")
        },
    }


def described(parts: dict[str, Any], source: str) -> dict[str, Any]:
    (found,) = [one for one in describe_sources(parts) if one["name"] == source]  # type: ignore[index,call-overload]  # JSON
    assert isinstance(found, dict)
    return found


def parts(*, serving: Any = _SERVING, changes: Any = (), **more: Any) -> dict[str, Any]:
    return {"heads": {"serving": serving, "beside": None, "changes": changes}, **more}


def test_sources_are_in_a_fixed_order() -> None:
    names = [one["name"] for one in describe_sources({})]  # type: ignore[index,call-overload]  # JSON

    assert names == ["suffix", "head", "native"]


def test_a_source_that_drafts_says_how_well() -> None:
    recent = {"seconds": 60.0, "drafted": 3480, "accepted": 2123}

    found = described(
        parts(gate=gate(drafted=900), acceptance={"suffix": {"recent": recent}}), "suffix"
    )

    assert found == {
        "name": "suffix",
        "state": "drafting",
        "verdict": "Drafts: 61 % of 3,480 tokens were accepted in the last minute.",
        "drafted_per_second": 58.0,
        "acceptance": 0.6101,
    }


def change(state: str, action: str = "load") -> dict[str, Any]:
    return {"id": "1", "action": action, "state": state, "name": "new", "by": "key k"}


@pytest.mark.parametrize(
    ("given", "source", "state", "words"),
    [
        ({}, "suffix", "off", "engine.speculation.sources is off"),
        (parts(gate=gate(drafted=1)), "native", "off", "not listed"),
        (parts(gate=gate(paused="suffix", drafted=5)), "suffix", "paused", "(ValueError 3)"),
        (parts(gate=gate(paused="suffix", drafted=5)), "head", "priced_out", "a pass takes longer"),
        (parts(serving=None, gate=gate(drafted=5)), "head", "absent", "no head is loaded"),
        (
            parts(serving=None, changes=[change("loading")], gate=gate()),
            "head",
            "loading",
            "Loading the head new.",
        ),
        (
            parts(serving=None, changes=[change("failed")], gate=gate()),
            "head",
            "absent",
            "no head is loaded",
        ),
        (
            parts(serving=None, changes=[change("loading", "unload")], gate=gate()),
            "head",
            "absent",
            "no head is loaded",
        ),
        (parts(gate=gate()), "suffix", "idle", "no step in the last minute"),
        (parts(gate=gate(limited=True, drafted=1)), "suffix", "limited", "max_batch_size (8)"),
        (parts(gate=gate(priced_out=9, unknown=8)), "suffix", "priced_out", "(price 0.44)"),
        (parts(gate=gate(unknown=9, priced_out=8)), "suffix", "no_proposals", "no likely"),
        (parts(gate=gate(unknown=9)), "head", "priced_out", "now and then"),
        (parts(gate=gate(drafted=9, unknown=3)), "suffix", "priced_out", "other sources"),
    ],
)
def test_the_reason_is_in_words(given: dict[str, Any], source: str, state: str, words: str) -> None:
    found = described(given, source)

    assert found["state"] == state
    assert words in found["verdict"]
    assert found["drafted_per_second"] is None
    assert found["acceptance"] is None


def test_nothing_drafted_in_a_minute_has_no_acceptance() -> None:
    recent = {"seconds": 60.0, "drafted": 0, "accepted": 0}

    found = described(
        parts(gate=gate(unknown=4), acceptance={"suffix": {"recent": recent}}), "suffix"
    )

    assert (found["drafted_per_second"], found["acceptance"]) == (0.0, None)
