"""Every error that scstream raises on purpose.

One tree with `ScStreamError` at the root. A message says what is wrong, where, and what to do
about it. Errors that stand for a bad argument are also `ValueError`, and a missing optional
library is also `ImportError`, so code that expects the built-in kinds keeps working.
"""

__all__ = [
    "CheckpointCorrupt",
    "CheckpointTooNew",
    "InputError",
    "MissingExtra",
    "ScStreamError",
    "TimeError",
    "missing_extra",
]


class ScStreamError(Exception):
    """Root of every error that scstream raises on purpose.

    Examples
    --------
    >>> from scstream.errors import InputError, ScStreamError
    >>> issubclass(InputError, ScStreamError)
    True
    """


class InputError(ScStreamError, ValueError):
    """The rows or a parameter cannot be used as given.

    Examples
    --------
    >>> from scstream.errors import InputError
    >>> try:
    ...     raise InputError("column 3 holds -1: counts must not be negative")
    ... except ValueError as error:
    ...     print(error)
    column 3 holds -1: counts must not be negative
    """


class TimeError(InputError):
    """A batch carries a time that the stream has already passed.

    Examples
    --------
    >>> from scstream.errors import InputError, TimeError
    >>> issubclass(TimeError, InputError)
    True
    """


class CheckpointCorrupt(ScStreamError):
    """A model file is cut short, altered or not a model file at all.

    Examples
    --------
    >>> from scstream.errors import CheckpointCorrupt
    >>> str(CheckpointCorrupt("m.scstream: checksum differs; restore an older copy"))
    'm.scstream: checksum differs; restore an older copy'
    """


class CheckpointTooNew(ScStreamError):
    """A model file was written by a later scstream in a format this one cannot read.

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


def missing_extra(package: str, extra: str) -> MissingExtra:
    """Build the error that tells a user how to install an optional library.

    Parameters
    ----------
    package
        Name of the library that could not be imported.
    extra
        Name of the extra of scstream that brings it.

    Returns
    -------
    MissingExtra
        Ready to be raised, by convention ``from`` the `ImportError` that caused it.

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
