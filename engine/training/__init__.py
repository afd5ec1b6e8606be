"""Trains draft heads: recipe, data, training loop, evaluation and export."""

from engine.training.chat import ChatTemplate, TemplateError
from engine.training.data import DropError, Record, read_records
from engine.training.interruption import interrupt_on_terminate
from engine.training.writer import Writer, starting_writer

__all__ = [
    "ChatTemplate",
    "DropError",
    "Record",
    "TemplateError",
    "Writer",
    "interrupt_on_terminate",
    "read_records",
    "starting_writer",
]
