from pathlib import Path

import pytest

from engine.worker.openmp import preload

LIBRARY = Path("/libs/libiomp5.so")


@pytest.mark.parametrize(
    ("library", "before", "expected"),
    [
        (None, None, {}),
        (LIBRARY, None, {"LD_PRELOAD": "/libs/libiomp5.so"}),
        (LIBRARY, "", {"LD_PRELOAD": "/libs/libiomp5.so"}),
        (LIBRARY, "/libs/a.so", {"LD_PRELOAD": "/libs/libiomp5.so:/libs/a.so"}),
        (LIBRARY, "/usr/lib/libgomp.so.1", {}),
    ],
    ids=["absent", "alone", "empty", "first", "another runtime stays"],
)
def test_preload_adds_the_library_once(
    library: Path | None, before: str | None, expected: dict[str, str]
) -> None:
    assert preload(library, before=before) == expected
