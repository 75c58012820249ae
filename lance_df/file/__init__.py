"""One `.lance` file: container, pages, statistics; readers and writers. Bytes stop here."""

from lance_df.file.api import LanceFileReader

__all__ = ["LanceFileReader"]
