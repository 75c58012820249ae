"""What a commit of a table may run into, and what it may be guarded by, with pylance's names."""

from lance_df.errors import ConflictError as CommitConflictError
from lance_df.table.commit.lock import CommitLock

__all__ = ["CommitConflictError", "CommitLock"]
