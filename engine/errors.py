"""Every error that the engine raises on purpose.

A message is written for the person who starts the worker: it says what is wrong and what would be
right, and never needs a traceback beside it.
"""

from collections.abc import Sequence


class EngineError(Exception):
    """Root of the errors that the engine raises on purpose."""


class ConfigError(EngineError):
    """The settings cannot be used as they are; the worker exits with code 2.

    Attributes:
        problems: One line for each thing to correct, never empty.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class UntestedVersionError(EngineError):
    """The installed vLLM is missing, or is not a version that this engine was tested with."""


class ModelError(EngineError):
    """A model could not be fetched, is not the file it should be, or cannot be converted."""


class SuffixError(EngineError):
    """Root of the suffix index's errors; after one of them no request has changed."""


class SuffixInputError(SuffixError, ValueError):
    """An argument that no call accepts: its type, its shape, or its value."""


class UnknownRequestError(SuffixError, LookupError):
    """The request was never started, or has ended."""


class DuplicateRequestError(SuffixError, ValueError):
    """A request of that name is running."""


class SuffixCapacityError(SuffixError):
    """Running requests use all of the memory; this one can have no drafts, other calls go on.

    The search for room may have evicted finished answers of tenants over their share.
    """


class SnapshotError(SuffixError):
    """The file is no snapshot of a suffix index, of another version, or damaged."""


class TrainingError(EngineError):
    """A training run cannot go on; what it has written so far stays for the next try."""


class RecipeError(TrainingError, ConfigError):
    """A recipe cannot be used as it is."""


class HeadError(EngineError):
    """Root of the draft heads' errors; the message names the file, what it has, what is right."""


class HeadFileError(HeadError):
    """The folder is missing, holds no head of a layout that we know, or a damaged one."""


class HeadTargetError(HeadError):
    """The head was made for another target."""


class HeadInputError(HeadError, ValueError):
    """An argument that no call accepts: its type, its shape, or its value."""
