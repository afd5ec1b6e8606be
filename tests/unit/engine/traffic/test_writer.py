import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.traffic import Ring, Seal, SegmentWriter, Stretch, list_segments, read_segment
from tests.unit.engine.traffic.segments import segment


def stretch(wait: Callable[[], None] = lambda: None) -> Stretch:
    whole = segment()
    parts = whole.hidden[:5], whole.hidden[5:]
    return Stretch(
        whole.tenant,
        whole.request,
        whole.target,
        whole.prompt_rows,
        whole.tokens.tolist(),
        parts,
        time.time_ns(),
        wait,
    )


def test_stretches_are_stored_and_counted(tmp_path: Path) -> None:
    writer = SegmentWriter(Ring(tmp_path, max_bytes=1 << 20, seal=Seal()))

    writer.offer(stretch())
    writer.offer(stretch())
    writer.stop()

    stored = [read_segment(path, Seal()) for path in list_segments(tmp_path)]
    assert [one.tokens.tolist() for one in stored] == [segment().tokens.tolist()] * 2
    assert writer.tokens == 32
    assert sum(writer.dropped.values()) == 0


def test_what_does_not_fit_into_the_queue_is_dropped_at_once(tmp_path: Path) -> None:
    writer = SegmentWriter(Ring(tmp_path, max_bytes=1 << 20, seal=Seal()))
    blocked, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        blocked.set()
        assert go_on.wait(10)

    writer.offer(stretch(wait))
    assert blocked.wait(10)
    for _ in range(70):
        writer.offer(stretch())

    assert writer.dropped["queue"] == 6
    go_on.set()
    writer.stop()
    assert len(list_segments(tmp_path)) == 65


@pytest.mark.parametrize(
    ("error", "reason"), [(OSError("full"), "disk"), (ValueError("odd"), "error")]
)
def test_a_failure_is_counted_and_logged_once_and_the_thread_goes_on(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def write(self, *_: Any, **__: Any) -> bool:
            raise error

    ring: Any = Failing()
    with caplog.at_level(logging.ERROR):
        writer = SegmentWriter(ring)
        writer.offer(stretch())
        writer.offer(stretch())
        writer.stop()

    assert writer.dropped[reason] == 2
    assert len(caplog.records) == 1
