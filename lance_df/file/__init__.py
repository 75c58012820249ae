"""One `.lance` file: container, pages, statistics; readers and writers. Bytes stop here."""

from lance_df.file.api import LanceFileReader
from lance_df.file.api_session import LanceFileSession
from lance_df.file.api_writer import LanceFileWriter

__all__ = ["LanceFileReader", "LanceFileSession", "LanceFileWriter"]
