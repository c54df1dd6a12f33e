"""Files as source and sink: JSON lines and CSV, which may grow, Parquet and Arrow."""

from scstream.stream.connectors.files.csv_lines import CsvReader, csv_line
from scstream.stream.connectors.files.sink import FileSink
from scstream.stream.connectors.files.source import FileSource
from scstream.stream.connectors.files.written import json_lines

__all__ = ["CsvReader", "FileSink", "FileSource", "csv_line", "json_lines"]
