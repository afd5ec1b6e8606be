"""The JSON line of the step benchmark: times of its parts, and their ratio to reading."""

from collections.abc import Sequence

from bench.rounds import Json, ratios_of, summary_of
from bench.step.measure import READ, Cell, StepFigures

DEFINITIONS = {
    "kernels": "by kernel and rows, each part's time in ms and its ratio to `read` in the same "
    "round, as median and [least, greatest] over rounds. The first kernel of a dtype is what a "
    "worker takes",
    "read": "the sum of as many bytes as all products' weights have, by torch, in order; it is the "
    "same for all rows and timed beside each",
    "products": "all linear layers and the product that gives the logits, one after another, each "
    "with all rows",
    "forward_N": "all layers in one call (engine.kernels.Decoder) and the logits of all rows, of "
    "one request with N tokens before them in a paged cache, blocks in order. Attention and norms "
    "take the processor's best kernel for the dtype",
    "left_out": "of `forward_N`: sampling, drafting, vLLM and HTTP",
    "http": "by clients at once: ms of a step of the default profile through gateway and worker, "
    "without drafts or pacing, some 300 tokens of context: the time between two tokens of a "
    "request while all get tokens. `ratio`: to `read` at one row of the first bfloat16 kernel "
    "in the same round",
}


def report(figures: StepFigures) -> Json:
    """Compute every figure."""
    kernels: dict[str, Json] = {}
    for (kernel, rows), cells in figures.cells.items():
        kernels.setdefault(kernel, {})[str(rows)] = _describe(cells)
    return {
        "bench": "step",
        "kernels": {
            kernel: dict(sorted(by_rows.items(), key=lambda item: int(item[0])))
            for kernel, by_rows in kernels.items()
        },
        "http": _http(figures),
        "weight_bytes": figures.weight_bytes,
        "rounds": max(map(len, figures.cells.values()), default=0),
        "definitions": DEFINITIONS,
    }


def _http(figures: StepFigures) -> Json:
    served = next((key for key in figures.cells if key[0].startswith("bfloat16")), None)
    found: Json = {}
    for clients, times in sorted(figures.http.items()):
        found[str(clients)] = {"step_ms": _summary([1e3 * each for each in times])}
        if served is not None:
            reading = [cell[READ] for cell in figures.cells[served]]
            found[str(clients)]["ratio"] = _summary(ratios_of(times, reading))
    return found


def _describe(cells: Sequence[Cell]) -> Json:
    found: Json = {}
    reading = [cell[READ] for cell in cells]
    for part in sorted(cells[0]):
        times = [cell[part] for cell in cells]
        found[f"{part}_ms"] = _summary([1e3 * each for each in times])
        if part != READ:
            found[f"{part}_ratio"] = _summary(ratios_of(times, reading))
    return found


def _summary(values: Sequence[float]) -> Json | None:
    summary = summary_of(values)
    return None if summary is None else summary.as_json()
