"""Build the running parts of one gateway process from its settings, and join them."""

from gateway.assembly.process import Lifecycle, ProcessContext
from gateway.assembly.services import build_services

__all__ = ["Lifecycle", "ProcessContext", "build_services"]
