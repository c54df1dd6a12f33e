"""Files as source and sink: JSON lines, CSV, Parquet and Arrow."""

from scstream.stream.connectors.files.csv_lines import CsvReader, csv_rows
from scstream.stream.connectors.files.sink import FileSink
from scstream.stream.connectors.files.source import FileSource
from scstream.stream.connectors.files.writers import in_pieces, json_lines

__all__ = ["CsvReader", "FileSink", "FileSource", "csv_rows", "in_pieces", "json_lines"]
