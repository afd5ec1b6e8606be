"""A simulated engine: how fast a way to draft is, on measured step times and recorded texts.

Pure arithmetic on a simulated clock, the same for the same seed. `engine.tuning` compares drafters
with it, and `bench/gate_sim` rules. Only `specgate.py` knows `engine.policy`.
"""

from engine.simulation.arrays import Flags, Floats, Ints
from engine.simulation.course import Course, Stage, course_of
from engine.simulation.curve import Curve, build_curve
from engine.simulation.engine import Record, World, simulate
from engine.simulation.schedules import Scheduled, Source, fixed
from engine.simulation.specgate import Specgate
from engine.simulation.texts import DEPTH, Library, Offers, Texts, Truth, build_library

__all__ = [
    "DEPTH",
    "Course",
    "Curve",
    "Flags",
    "Floats",
    "Ints",
    "Library",
    "Offers",
    "Record",
    "Scheduled",
    "Source",
    "Specgate",
    "Stage",
    "Texts",
    "Truth",
    "World",
    "build_curve",
    "build_library",
    "course_of",
    "fixed",
    "simulate",
]
