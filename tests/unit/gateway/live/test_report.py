import json
from typing import Any

import pytest

from gateway.errors import UpstreamError
from gateway.live.report import MOST_BYTES, Drafted, Launches, read_report
from tests.fakes.pages import speculation
from tests.fakes.state import WorkerState


def report(**changed: Any) -> bytes:
    """A report with other parts."""
    found = speculation(WorkerState(head_commands=[{"action": "load", "by": "key secret"}]), b"")
    found["engines"][0] |= changed
    return json.dumps(found).encode()


def test_the_parts_of_an_engine_are_read() -> None:
    (engine,) = read_report(report())

    assert (engine.engine, engine.price, engine.trust) == (0, 0.25, 1.0)
    assert engine.step_ms == [(1, 15.6), (2, 16.0)]
    assert engine.pass_ms is None
    assert engine.verification_ms == [(1, 0.8)]
    assert engine.decisions == {"drafted": 5, "priced_out": 1}
    assert engine.launch is None
    assert [source.name for source in engine.sources] == ["suffix", "head"]
    assert engine.head is not None
    assert engine.head.name == "shipped"
    assert engine.trial is not None
    assert (engine.trial.role, engine.trial.pairs) == ("challenger", 256)
    assert engine.trial.worth == 0.0834
    assert engine.drafts == {"suffix": Drafted(drafted=10, accepted=6)}


def test_who_sent_a_command_is_not_shown() -> None:
    (engine,) = read_report(report())

    assert "secret" not in engine.model_dump_json()


def test_launches_are_read_where_there_are_any() -> None:
    (engine,) = read_report(report(gate={"steps": {"waited": 3, "ahead": 4}}))

    assert engine.launch == Launches(waited=3, ahead=4)


def test_an_older_worker_tells_less() -> None:
    (engine,) = read_report(b'{"engines":[{"engine":0,"gate":{"price":0.5}}]}')

    assert engine.price == 0.5
    assert (engine.sources, engine.decisions, engine.step_ms) == ([], {}, None)


def test_several_engines_are_read() -> None:
    found = read_report(b'{"engines":[{"engine":0},{"engine":1}]}')

    assert [engine.engine for engine in found] == [0, 1]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"engines":[1]}',
        b'{"engines":[{"engine":-1}]}',
        b'{"engines":[{"engine":0,"acceptance":{"suffix":{"drafted":1' + b"0" * 400 + b"}}}]}",
        b'{"engines":[{"engine":0,"gate":{"price":NaN}}]}',
        b'{"engines":[{"engine":0,"gate":{"price":Infinity}}]}',
        b'{"engines":[{"engine":0,"gate":{"step_cost_ms":[[1]]}}]}',
        b'{"engines":[{"engine":0,"acceptance":{"suffix":{"drafted":-1,"accepted":0}}}]}',
        b'{"engines":[{"engine":0,"heads":{"serving":{"version":"' + b"x" * 300 + b'"}}}]}',
        b'{"engines":[{"engine":0,"sources":[{"name":"a","state":"b"}]}]}',
        b'{"engines":' + b"[" * 100_000,
        b'{"engines":[' + b",".join(b'{"engine":%d}' % n for n in range(300)) + b"]}",
        b" " * (MOST_BYTES + 1),
    ],
    ids=range(16),
)
def test_what_is_no_report_is_refused(body: bytes) -> None:
    with pytest.raises(UpstreamError, match=r"^The engine's report on its drafts"):
        read_report(body)
