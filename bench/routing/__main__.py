"""`python -m bench.routing`: rules that route requests, in simulated fleets."""

from concurrent.futures import as_completed
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
        running = {pool.submit(simulate, cell): cell for cell in cells}
        for done in as_completed(running):
            cell = running[done]
            found[cell] = done.result()
            say(f"{len(found)} of {len(cells)}: {' '.join(map(str, astuple(cell)[:4]))}")
    return report({cell: found[cell] for cell in cells})


if __name__ == "__main__":
    raise SystemExit(main())
