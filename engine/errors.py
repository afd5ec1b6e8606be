"""Every error that the engine raises deliberately.

A message addresses whoever starts the worker: it says what is wrong and what is expected, and makes
sense without a traceback.
"""

from collections.abc import Sequence


class EngineError(Exception):
    """Base class of the errors that the engine raises deliberately."""


class ConfigError(EngineError):
    """The settings are invalid; the worker exits with status 2.

    Attributes:
        problems: One line per problem, never empty.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


class UntestedVersionError(EngineError):
    """vLLM is not installed, or its version was not tested with this engine."""


class ModelError(EngineError):
    """A model could not be fetched or converted, or its file is not the expected one."""


class SuffixError(EngineError):
    """Base class of all that the suffix index raises because of one request; others go on.

    The call changed no request. Only MemoryError is outside of it: the system has no memory.
    """


class SuffixInputError(SuffixError, ValueError):
    """An argument has an invalid type, shape or value."""


class UnknownRequestError(SuffixError, LookupError):
    """The request was never started, or has ended."""


class DuplicateRequestError(SuffixError, ValueError):
    """A request with this name is already running."""


class SuffixCapacityError(SuffixError):
    """Running requests use all of the memory, or the system has none: this request gets no drafts.

    Finished answers of tenants over their share may have been evicted in the attempt.
    """


class SnapshotError(SuffixError):
    """The file is no snapshot of a suffix index, or of another version or model, or is damaged."""


class TrainingError(EngineError):
    """A training run cannot continue; what it has written stays valid for the next attempt."""


class RecipeError(TrainingError, ConfigError):
    """A training recipe is invalid."""


class TrafficError(EngineError):
    """Recorded traffic cannot be read: damaged, or the key is not the one it was written with."""


class HeadError(EngineError):
    """Base class of the draft heads' errors; messages say what was found and expected."""


class HeadFileError(HeadError):
    """The folder is missing, damaged, or holds no head in a known layout."""


class HeadTargetError(HeadError):
    """The head was trained for another target model."""


class HeadInputError(HeadError, ValueError):
    """An argument has an invalid type, shape or value."""
