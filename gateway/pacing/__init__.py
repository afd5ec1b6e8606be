"""Decides when each piece of a stream is sent; pure, the clock is passed in."""

from gateway.pacing.cuts import cut, goes_on, last_character, may_go_on
from gateway.pacing.mode import choose_mode
from gateway.pacing.packets import LONGEST_STEP, Packet, Packetizer
from gateway.pacing.playout import Held, Playout
from gateway.pacing.rhythm import Rhythm
from gateway.pacing.wheel import Clock, Timer, Wheel

__all__ = [
    "LONGEST_STEP",
    "Clock",
    "Held",
    "Packet",
    "Packetizer",
    "Playout",
    "Rhythm",
    "Timer",
    "Wheel",
    "choose_mode",
    "cut",
    "goes_on",
    "last_character",
    "may_go_on",
]
