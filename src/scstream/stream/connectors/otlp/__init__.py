"""Logs and traces of OpenTelemetry, pushed over HTTP: the HTTP source with other messages."""

from scstream.stream.connectors.otlp.source import OtlpSource

__all__ = ["OtlpSource"]
