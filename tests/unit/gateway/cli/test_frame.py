import io
from typing import Any

import pytest
from rich.console import Console

from gateway.cli.frame import Screen, build_frame
from gateway.cli.live_page import Page
from tests.unit.gateway.cli.pages import VERDICT, page, raw_engine, raw_page, raw_worker


def lines(
    of: Page,
    *,
    width: int = 80,
    height: int | None = None,
    has_unicode: bool = True,
    trouble: str | None = None,
) -> list[str]:
    """The frame as lines of text, without spaces at their ends."""
    file = io.StringIO()
    console = Console(file=file, width=width, highlight=False)
    screen = Screen(width, height, has_unicode)
    console.print(build_frame(of, screen, url="http://gateway", trouble=trouble))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def line_of(found: list[str], start: str) -> str:
    (line,) = [line for line in found if line.lstrip().startswith(start)]
    return line


def test_the_figures_are_shown() -> None:
    found = lines(page())

    assert found[0].startswith("specgate 0.2.0  http://gateway  ")
    assert line_of(found, "tokens/s").split() == ["tokens/s", "88", "██▇"]
    assert "2, queue 1" in line_of(found, "active")
    assert "p50 81 ms  p99 1.2 s" in line_of(found, "first token")
    assert "p50 0.7 ms  p99 35 ms" in line_of(found, "gaps raw")
    assert "p50 10 ms  p99 19 ms" in line_of(found, "gaps paced")
    assert line_of(found, "price     ").split()[:2] == ["price", "0.39"]


def test_acceptance_has_a_bar_for_each_source() -> None:
    found = lines(page())

    suffix = line_of(found, "suffix    59 %")
    assert "████████████░░░░░░░░" in suffix
    assert "50.0 drafted/s ▅▅▆" in suffix
    assert "50 % ██████████░░" in line_of(found, "head      50 %")


def test_a_worker_is_shown_with_its_verdicts() -> None:
    found = lines(page())

    assert "local  up  2 running  smollm2-135m  process ready" in found
    assert "  price 0.44  a step of 1 costs 14.2 ms  head shipped 0a1b2c3d4e5f" in found
    assert f"  suffix  {VERDICT}" in found
    assert "  native  Off: not listed." in found


@pytest.mark.parametrize(("width", "height"), [(80, 24), (132, 24), (200, 60), (40, 10), (20, 5)])
def test_a_frame_is_no_wider_than_the_terminal(width: int, height: int) -> None:
    assert max(map(len, lines(page(), width=width, height=height))) <= width


def test_80_by_24_has_room_for_a_worker() -> None:
    found = lines(page(), height=24)

    assert len(found) <= 24
    assert f"  suffix  {VERDICT}" in found


def test_in_a_wide_terminal_workers_stand_beside_the_figures() -> None:
    found = lines(page(), width=160, height=24)

    assert "local  up  2 running" in line_of(found, "tokens/s")


def test_many_workers_are_cut_to_the_height() -> None:
    workers = [raw_worker(worker=f"w{number}") for number in range(20)]

    found = lines(page(workers=workers), height=24)

    assert sum(line.startswith("w") for line in found) == 1
    assert found[-1] == "and 19 more workers"
    assert sum(line.startswith("w") for line in lines(page(workers=workers))) == 20


@pytest.mark.parametrize(
    ("worker", "words"),
    [
        (raw_worker(up=False, error="The worker is not up."), "local  down"),
        (raw_worker(ejected=True, ejections=2), "local  ejected"),
        (raw_worker(ejections=2), "2 ejections"),
        (raw_worker(error="The engine stayed silent."), "  The engine stayed silent."),
        (raw_worker(supervisor=None), "local  up  2 running  smollm2-135m"),
        (
            raw_worker(
                supervisor={"state": "waiting", "pid": None, "restarts": 3, "last_reason": "exited"}
            ),
            "process waiting  3 restarts, last: exited",
        ),
        (raw_worker(engines=[raw_engine(), raw_engine(engine=1)]), "  engine 1  price 0.44"),
        (
            raw_worker(
                engines=[
                    raw_engine(
                        trial={
                            "version": "f0", "name": "new", "role": "challenger", "pairs": 256,
                            "most_pairs": 1280, "worth": 0.0834,
                        }
                    )
                ]
            ),
            "challenger new 256/1280 +0.083",
        ),
    ],
    ids=["down", "ejected", "was-ejected", "silent", "remote", "restarts", "engines", "trial"],
)  # fmt: skip
def test_the_state_of_a_worker_is_shown(worker: dict[str, Any], words: str) -> None:
    assert words in "\n".join(lines(page(workers=[worker]), width=120))


def test_a_worker_of_which_little_is_known_is_shown() -> None:
    engine = raw_engine(price=None, step_ms=None, head=None, sources=[])

    found = lines(page(workers=[raw_worker(engines=[engine])]))

    assert found[-1].startswith("local  up")


def test_without_workers_it_says_so() -> None:
    assert lines(page(workers=[]))[-1] == "no workers"


def test_before_the_first_interval_it_is_collecting() -> None:
    series: dict[str, Any] = {
        name: {} if isinstance(of, dict) else [] for name, of in raw_page()["series"].items()
    }

    found = lines(page(times=[], series=series))

    assert found[1] == "collecting: figures come after 10 s"
    assert line_of(found, "tokens/s").split() == ["tokens/s", "-"]
    assert "p50 -  p99 -" in line_of(found, "first token")
    assert "no drafts" in found


def test_old_samples_are_noticed() -> None:
    assert lines(page(now=1795878460.0))[1] == "the last sample is 40 s old"


def test_trouble_is_said() -> None:
    assert lines(page(), trouble="no answer for 3 s")[1] == "no answer for 3 s"


def test_without_unicode_it_is_ascii() -> None:
    text = "\n".join(lines(page(), has_unicode=False))

    assert text.isascii()
    assert "############........" in text


def test_nothing_a_worker_says_controls_the_terminal() -> None:
    source = {"name": "suffix", "state": "x", "verdict": "\x1b[2J[red]boo"}

    text = "\n".join(lines(page(workers=[raw_worker(engines=[raw_engine(sources=[source])])])))

    assert "\x1b" not in text
    assert "?[2J[red]boo" in text
