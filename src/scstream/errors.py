"""The errors of scstream. All are subclasses of `ScStreamError`.

A message says what is wrong, where, and what to do. Errors of arguments are also `ValueError`, and
a missing optional library is also `ImportError`, so code that catches the built-in types works.
"""

__all__ = [
    "AlreadyRunning",
    "CheckpointCorrupt",
    "CheckpointTooNew",
    "DataWarning",
    "EngineError",
    "Fenced",
    "InputError",
    "LeaseLost",
    "MigrationRefused",
    "MissingExtra",
    "NonDeterministicReplay",
    "PartsLost",
    "ScStreamError",
    "SinkError",
    "SourceChanged",
    "SourceGap",
    "SourceRegressed",
    "StreamError",
    "TimeError",
    "UnknownKey",
    "WrongKey",
    "missing_extra",
]


class ScStreamError(Exception):
    """Base class of all errors of scstream.

    Examples
    --------
    >>> from scstream.errors import InputError, ScStreamError
    >>> issubclass(InputError, ScStreamError)
    True
    """


class InputError(ScStreamError, ValueError):
    """The rows or a parameter cannot be used as given.

    Attributes
    ----------
    row, column : int or None
        Position of the entry that it is about, if it is about one.

    Examples
    --------
    >>> from scstream.errors import InputError
    >>> try:
    ...     raise InputError("column 3 holds -1: counts must not be negative")
    ... except ValueError as error:
    ...     print(error)
    column 3 holds -1: counts must not be negative
    """

    row: int | None = None
    column: int | None = None


class DataWarning(UserWarning):
    """Rows or settings with which a model learns less than its user expects; it says what to do.

    Examples
    --------
    >>> import warnings
    >>> from scstream.errors import DataWarning
    >>> warnings.simplefilter("ignore", DataWarning)
    """


class TimeError(InputError):
    """The time of a batch is before the time of the model.

    Examples
    --------
    >>> from scstream.errors import InputError, TimeError
    >>> issubclass(TimeError, InputError)
    True
    """


class WrongKey(InputError):
    """A key is missing where there is a model for every key, or given where there is one model.

    Examples
    --------
    >>> from scstream.errors import InputError, WrongKey
    >>> issubclass(WrongKey, InputError)
    True
    """


class UnknownKey(InputError):
    """There is no model of this key.

    Examples
    --------
    >>> from scstream.errors import InputError, UnknownKey
    >>> issubclass(UnknownKey, InputError)
    True
    """


class CheckpointCorrupt(ScStreamError):
    """A model file is truncated, altered or not a model file.

    Examples
    --------
    >>> from scstream.errors import CheckpointCorrupt
    >>> str(CheckpointCorrupt("m.scstream: checksum differs; restore an older copy"))
    'm.scstream: checksum differs; restore an older copy'
    """


class CheckpointTooNew(ScStreamError):
    """A model file was written by a later version of scstream, in a format that is not known.

    Examples
    --------
    >>> from scstream.errors import CheckpointTooNew
    >>> str(CheckpointTooNew("m.scstream has format 2, this scstream reads 1: upgrade it"))
    'm.scstream has format 2, this scstream reads 1: upgrade it'
    """


class MissingExtra(ScStreamError, ImportError):
    """An optional library is needed and not installed; see `missing_extra`.

    Examples
    --------
    >>> from scstream.errors import MissingExtra
    >>> issubclass(MissingExtra, ImportError)
    True
    """


class EngineError(ScStreamError):
    """The Ray cluster lost data, took too long or does not answer.

    The model is unchanged; learn the batch again.

    Examples
    --------
    >>> from scstream.errors import EngineError
    >>> str(EngineError("no worker answered within 600 s; learn the batch again"))
    'no worker answered within 600 s; learn the batch again'
    """


class PartsLost(EngineError):
    """Intermediate results of workers were lost with a node.

    Examples
    --------
    >>> from scstream.errors import EngineError, PartsLost
    >>> issubclass(PartsLost, EngineError)
    True
    """


class StreamError(ScStreamError):
    """A pipeline cannot continue; `exit_code` is the exit code of the command.

    Examples
    --------
    >>> from scstream.errors import SourceGap, StreamError
    >>> issubclass(SourceGap, StreamError), SourceGap.exit_code
    (True, 12)
    """

    exit_code = 1


class SourceChanged(StreamError):
    """The source is not the one of the checkpoint: it was deleted and created again.

    Examples
    --------
    >>> from scstream.errors import SourceChanged
    >>> SourceChanged.exit_code
    10
    """

    exit_code = 10


class SourceRegressed(StreamError):
    """The source ends before a position that was already read: it lost confirmed messages.

    Examples
    --------
    >>> from scstream.errors import SourceRegressed
    >>> SourceRegressed.exit_code
    11
    """

    exit_code = 11


class SourceGap(StreamError):
    """Messages were deleted before they were read: the retention of the source is too short.

    Examples
    --------
    >>> from scstream.errors import SourceGap
    >>> SourceGap.exit_code
    12
    """

    exit_code = 12


class Fenced(StreamError):
    """Another instance took over; this one must not write.

    Examples
    --------
    >>> from scstream.errors import Fenced
    >>> Fenced.exit_code
    13
    """

    exit_code = 13


class AlreadyRunning(StreamError):
    """Another instance on this machine uses the same checkpoints.

    Examples
    --------
    >>> from scstream.errors import AlreadyRunning
    >>> AlreadyRunning.exit_code
    14
    """

    exit_code = 14


class NonDeterministicReplay(StreamError):
    """A batch that was learned again got other labels than the first time.

    Examples
    --------
    >>> from scstream.errors import NonDeterministicReplay
    >>> NonDeterministicReplay.exit_code
    15
    """

    exit_code = 15


class SinkError(StreamError):
    """A sink rejects the data, or contains data that this pipeline did not write.

    Examples
    --------
    >>> from scstream.errors import SinkError
    >>> SinkError.exit_code
    16
    """

    exit_code = 16


class DiskFull(StreamError):
    """A disk has no space left; the pipeline continues from its checkpoint once there is some.

    Examples
    --------
    >>> from scstream.errors import DiskFull
    >>> DiskFull.exit_code
    17
    """

    exit_code = 17


class LeaseLost(StreamError):
    """The lease could not be renewed; the instance stopped before another one could start.

    Examples
    --------
    >>> from scstream.errors import LeaseLost
    >>> LeaseLost.exit_code
    18
    """

    exit_code = 18


class MigrationRefused(StreamError):
    """A job cannot be continued with these settings; see `scstream migrate`.

    Examples
    --------
    >>> from scstream.errors import MigrationRefused
    >>> MigrationRefused.exit_code
    19
    """

    exit_code = 19


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Return the error that tells the user how to install an optional library.

    Parameters
    ----------
    package
        Name of the library that could not be imported.
    extra
        Name of the extra of scstream that installs it.

    Returns
    -------
    MissingExtra
        Raise it ``from`` the `ImportError`.

    Examples
    --------
    >>> from scstream.errors import missing_extra
    >>> print(missing_extra("river", "river"))
    river is not installed; install it with: pip install "scstream[river]"
    """
    return MissingExtra(
        f'{package} is not installed; install it with: pip install "scstream[{extra}]"',
        name=package,
    )
