"""Apache Iceberg as a sink."""

from scstream.errors import missing_extra

try:
    import pyarrow as _pyarrow  # type: ignore[import-untyped]  # noqa: F401
    import pyiceberg as _pyiceberg  # noqa: F401
except ImportError as error:
    raise missing_extra("pyiceberg", "iceberg") from error

from scstream.stream.connectors.iceberg.sink import IcebergSink

__all__ = ["IcebergSink"]
