"""Delta Lake as a sink."""

from scstream.errors import missing_extra

try:
    import deltalake as _deltalake  # noqa: F401
    import pyarrow as _pyarrow  # type: ignore[import-untyped]  # noqa: F401
except ImportError as error:
    raise missing_extra("deltalake", "delta") from error

from scstream.stream.connectors.delta.sink import DeltaSink

__all__ = ["DeltaSink"]
