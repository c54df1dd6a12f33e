"""The server that Prometheus scrapes: that of prometheus_client, with an orderly end."""

from __future__ import annotations

from typing import Any, Protocol, Self

from scstream.errors import InputError, missing_extra

try:
    from prometheus_client import start_http_server
except ImportError as error:
    raise missing_extra("prometheus-client", "metrics") from error


class HasCollector(Protocol):
    """Anything with metrics; `scstream.observe.prometheus.Metrics` is one."""

    @property
    def collector(self) -> Any:
        """The metrics, as prometheus_client collects them."""
        ...


class MetricsServer:
    """A running server; `close`, or the end of a ``with`` block, stops it."""

    def __init__(self, metrics: HasCollector, host: str, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(port, host, metrics.collector)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"metrics cannot be served at {host}:{port}: {reason}; choose another port."
            ) from error
        self.host, self.port = host, int(self._server.server_port)

    @property
    def url(self) -> str:
        """The URL for the configuration of Prometheus."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/metrics"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the server; you may call this again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(
    metrics: HasCollector, host: str = "127.0.0.1", port: int = 9464
) -> MetricsServer:
    """Serve metrics over HTTP from a thread of this process.

    The server has neither a token nor encryption. Let it listen on loopback, or where only
    Prometheus can reach it.

    Parameters
    ----------
    metrics : Metrics
        The metrics.
    host : str
        Address to listen on; by default only this machine can connect.
    port : int
        Port to listen on; 0 for any free one.

    Returns
    -------
    MetricsServer
        The running server; `close`, or the end of a ``with`` block, stops it.

    Examples
    --------
    >>> from urllib.request import urlopen
    >>> from scstream.observe.prometheus import Metrics, serve_metrics
    >>> with serve_metrics(Metrics(), port=0) as server, urlopen(server.url) as response:
    ...     b"scstream_info{" in response.read()
    True
    """
    return MetricsServer(metrics, host, port)
