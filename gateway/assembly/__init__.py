"""Build and connect the objects of one gateway process from its settings."""

from gateway.assembly.process import Lifecycle, ProcessContext
from gateway.assembly.services import build_services

__all__ = ["Lifecycle", "ProcessContext", "build_services"]
