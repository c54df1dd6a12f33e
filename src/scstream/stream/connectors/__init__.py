"""Sources, sinks and stores; each system has a file or folder, which imports its library."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from scstream.errors import InputError
from scstream.io.header import Plain
from scstream.stream.connectors.start_time import read_start_time
from scstream.stream.sink import Sink
from scstream.stream.source import Source
from scstream.stream.store import FolderStore, Store

_PACKAGE = "scstream.stream.connectors."
SOURCES: Mapping[str, str] = {
    "file": "files.FileSource",
    "http": "http.HttpSource",
    "kafka": "kafka.KafkaSource",
    "nats": "nats.NatsSource",
    "otlp": "otlp.OtlpSource",
    "redis": "redis.RedisSource",
    "stdin": "pipes.StdinSource",
}
TIMED = ("kafka", "nats", "redis")  # sources that can begin at a time
SINKS: Mapping[str, str] = {
    "delta": "delta.DeltaSink",
    "file": "files.FileSink",
    "iceberg": "iceberg.IcebergSink",
    "kafka": "kafka.KafkaSink",
    "nats": "nats.NatsSink",
    "postgres": "postgres.PostgresSink",
    "qdrant": "qdrant.QdrantSink",
    "redis": "redis.RedisSink",
    "stdout": "pipes.StdoutSink",
}


def source(kind: str, **options: Any) -> Source:
    """Build a source by the name of its system.

    Parameters
    ----------
    kind : str
        One of `SOURCES`.
    **options : object
        Options of the source, as in the table `source` of the settings.

    Returns
    -------
    Source
        Not opened yet.

    Examples
    --------
    >>> from scstream.stream.connectors import source
    >>> source("carrier pigeon")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: there is no source 'carrier pigeon'; there are: file, http, ...
    """
    if kind in SOURCES and kind not in TIMED and read_start_time(options.get("start")) is not None:
        raise InputError(
            f"the {kind} source cannot begin at a time; start at 'first', or use one of the "
            f"sources that can: {', '.join(TIMED)}."
        )
    built: Source = _build("source", SOURCES, kind, options)
    return built


def sink(kind: str, **options: Any) -> Sink:
    """Build a sink by the name of its system.

    Parameters
    ----------
    kind : str
        One of `SINKS`.
    **options : object
        Options of the sink, as in the table `sink` of the settings.

    Returns
    -------
    Sink
        Not opened yet.

    Examples
    --------
    >>> from scstream.stream.connectors import sink
    >>> sink("file", pfad="labels.csv")
    Traceback (most recent call last):
    ...
    scstream.errors.InputError: the file sink has no option 'pfad'; it has: ...
    """
    built: Sink = _build("sink", SINKS, kind, options)
    return built


def store(address: str, **options: Any) -> Store:
    """Open a store: a folder, or an object store at an address.

    Parameters
    ----------
    address : str
        Path of a folder, or an address: ``s3://bucket/prefix`` or ``nats://host:4222/bucket``.
    **options : object
        Options of `S3Store` or `NatsStore`, for an address.

    Returns
    -------
    Store
        Its objects are written atomically.

    Examples
    --------
    >>> import tempfile
    >>> from scstream.stream.connectors import store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store(folder).names()
    []
    """
    if "://" not in address:
        return FolderStore(address)
    if address.startswith(("nats://", "tls://")):
        from scstream.stream.connectors.nats import NatsStore

        return NatsStore(address, **options)
    from scstream.stream.connectors.s3 import S3Store

    return S3Store(address, **options)


def has_option(role: str, kind: str, option: str) -> bool:
    """Return whether a connector has an option."""
    known = SOURCES if role == "source" else SINKS
    return option in inspect.signature(_connector(role, known, kind)).parameters


def _connector(role: str, known: Mapping[str, str], kind: str) -> Any:
    if kind not in known:
        raise InputError(f"there is no {role} {kind!r}; there are: {', '.join(known)}.")
    module, _, name = known[kind].partition(".")
    return getattr(import_module(_PACKAGE + module), name)


def _build(role: str, known: Mapping[str, str], kind: str, options: Plain) -> Any:
    connector = _connector(role, known, kind)
    accepted = list(inspect.signature(connector).parameters)
    unknown = [option for option in options if option not in accepted]
    if unknown:
        raise InputError(
            f"the {kind} {role} has no option {unknown[0]!r}; it has: {', '.join(accepted)}."
        )
    try:
        return connector(**options)
    except TypeError as error:  # a required option is missing
        raise InputError(f"the {kind} {role} cannot be built: {error}.") from error
