"""`python -m bench.routing`: rules that route requests, in simulated fleets."""

from dataclasses import astuple

from bench.command import new_parser, new_pool, print_line
from bench.rounds import Json
from bench.routing.plan import Cell, plan
from bench.routing.report import report
from bench.routing.simulate import Figures, simulate
from loadtest.progress import say


def main() -> int:
    """Run the benchmark; returns the exit status."""
    quick = bool(new_parser("routing").parse_args().quick)
    return print_line(lambda: _measure(quick=quick), ())


def _measure(*, quick: bool) -> Json:
    cells = list(plan(quick=quick))
    found: dict[Cell, Figures] = {}
    with new_pool() as pool:
        for cell, figures in pool.imap_unordered(_simulated, cells):
            found[cell] = figures
            say(f"{len(found)} of {len(cells)}: {' '.join(map(str, astuple(cell)[:4]))}")
    return report({cell: found[cell] for cell in cells})


def _simulated(cell: Cell) -> tuple[Cell, Figures]:
    return cell, simulate(cell)


if __name__ == "__main__":
    raise SystemExit(main())
