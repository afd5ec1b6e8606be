from pathlib import Path

from bench.gate.plot import draw

SPEEDS = {
    "mixed": {
        clients: {"none": 40.0 * clients, "gate": 70.0 * clients, "fixed-4": 50.0 * clients}
        for clients in (1, 4, 32)
    }
}


def test_the_same_figures_make_the_same_picture_with_every_setting(tmp_path: Path) -> None:
    first, again = tmp_path / "first.svg", tmp_path / "again.svg"

    draw(first, SPEEDS)
    draw(again, SPEEDS)

    assert first.read_text(encoding="utf-8") == again.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->" in first.read_text("utf-8") for name in ("gate", "fixed-4"))
