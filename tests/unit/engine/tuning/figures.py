"""Measurements and findings that were never measured."""

from engine.tuning.findings import About, Findings
from engine.tuning.measure import Measurement

ABOUT = About("tiny", "chat.jsonl", 7, "a <fast> processor", "2026-11-28", None)
SEATS = {1: 1, 8: 8}


def measurement(name: str, goodput: float = 50.0, **fields: object) -> Measurement:
    """A variant that was measured for two seconds."""
    one = Measurement(name, requests=4, tokens=int(2 * goodput), seconds=2.0, memory_mib=900.0)
    for field, value in fields.items():
        setattr(one, field, value)
    return one


def findings(**fields: object) -> Findings:
    """Four variants, three of which were confirmed in two rounds."""
    order = ["off", "suffix", "head", "suffix+head"]
    given: dict[str, object] = {
        "order": order,
        "measured": {
            name: measurement(
                name,
                step_ms=[(1, 10.0), (4, 12.0)],
                pass_ms=[(1, 1.0), (4, 0.9), (8, 2.0)],
                drafted={"suffix": [10, 4, 0]},
                accepted={"suffix": [5, 1, 0]},
            )
            for name in order
        },
        "seats": SEATS,
        "simulation": {
            "off": {1: 40.0, 8: 200.0},
            "suffix": {1: 50.0, 8: 240.0},
            "head": {1: 55.0, 8: 230.0},
            "suffix+head": {1: 60.0, 8: 250.0},
        },
        "rounds": {
            "suffix": {1: [50.0, 52.0], 8: [260.0, 262.0]},
            "head": {1: [54.0, 55.0], 8: [230.0, 231.0]},
            "suffix+head": {1: [60.0, 61.0], 8: [250.0, 252.0]},
        },
        "chosen": "suffix+head",
        "scale": dict.fromkeys(order, 1.1),
        "head_brings": None,
    }
    return Findings(**{**given, **fields})  # type: ignore[arg-type]  # of the right types above
