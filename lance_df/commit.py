"""The errors and the lock of commits to a table, with the names of pylance."""

from lance_df.errors import ConflictError as CommitConflictError
from lance_df.table.commit.lock import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
