"""What operators see of the last quarter of an hour, from this gateway's own memory (ADR 43).

A task takes a sample every few seconds; `GET /live` shows the latest ones.
"""

from gateway.live.page import Links
from gateway.live.report import EngineReport
from gateway.live.sampler import Reading, Sampler

__all__ = ["EngineReport", "Links", "Reading", "Sampler"]
