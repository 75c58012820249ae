"""The exception tree: one base class, and a subclass for each way in which a user can react to an error.

::

    LanceError
    ├── InvalidInputError (ValueError, OSError)   fix the call
    ├── NotFoundError (LookupError)            check the name
    │   ├── DatasetNotFoundError (ValueError, OSError)
    │   ├── VersionNotFoundError (ValueError, OSError)
    │   ├── ColumnNotFoundError (KeyError, ValueError, OSError)
    │   └── IndexNotFoundError (KeyError, RuntimeError)
    ├── AlreadyExistsError (ValueError, OSError)  choose another name, or overwrite
    │   └── IndexAlreadyExistsError (RuntimeError)
    ├── ConflictError (OSError)                another writer committed first
    │   ├── RetryableConflictError             run the operation again on the new version
    │   └── IncompatibleConflictError          resolve it by hand
    ├── CommitStateUnknownError                read the table before trying again
    ├── RowCountMismatchError                  report it: a bug stopped a commit that would lose rows
    ├── CorruptDataError                       restore the file
    ├── UnsupportedFeatureError (NotImplementedError, OSError)   valid data, newer than this reader
    ├── ResourcesExhaustedError (MemoryError)  raise the limit of the session, or let it spill
    ├── StorageError (OSError)                 check credentials, network, permissions
    ├── JobFailedError                         read the cause, and run the job again
    │   └── JobCancelledError                  run it again if it was not cancelled on purpose
    ├── ForkedProcessError (RuntimeError)      start the process with spawn
    └── MissingDependencyError (ImportError)   install the extra that the message names

The built-in exceptions in parentheses are also base classes. pylance raises them for the same mistakes, so
programs written for pylance catch the errors of lance_df.

A message says what happened; which file, column or version is affected; and what was expected and what was
read instead. Messages never contain credentials or storage options. Every error can be pickled with its
message.
"""


class LanceError(Exception):
    """The base class of all errors that this package raises on purpose."""

    def __str__(self) -> str:
        """Return the message, with invalid bytes of file names escaped, because Arrow requires UTF-8."""
        # not of the next class: KeyError shows the representation of its message
        return Exception.__str__(self).encode("utf-8", "backslashreplace").decode()


class InvalidInputError(LanceError, ValueError, OSError):
    """The call is invalid: an argument, a predicate or a statement."""


class NotFoundError(LanceError, LookupError):
    """Something that the call names does not exist."""


class DatasetNotFoundError(NotFoundError, ValueError, OSError):
    """There is no Lance table at this location."""


class VersionNotFoundError(NotFoundError, ValueError, OSError):
    """The table has no such version, tag or branch."""


class ColumnNotFoundError(NotFoundError, KeyError, ValueError, OSError):
    """The table has no such column."""


class IndexNotFoundError(NotFoundError, KeyError, RuntimeError):
    """The table has no such index."""


class AlreadyExistsError(LanceError, ValueError, OSError):
    """The name is taken."""


class IndexAlreadyExistsError(AlreadyExistsError, RuntimeError):
    """The table already has an index with this name."""


class ConflictError(LanceError, OSError):
    """Another writer committed first."""

    @property
    def retryable(self) -> bool:
        """Return whether the operation may succeed if it is computed again from the newest version."""
        return isinstance(self, RetryableConflictError)


class RetryableConflictError(ConflictError):
    """The operation may succeed if it is computed again from the newest version."""


class IncompatibleConflictError(ConflictError):
    """The other commit makes this operation meaningless."""


class CommitStateUnknownError(LanceError):
    """It is not known whether a commit succeeded."""


class RowCountMismatchError(LanceError):
    """A commit would lose rows, or hold some rows twice, because of a bug. Nothing was published."""


class CorruptDataError(LanceError):
    """Stored bytes contradict the format."""


class UnsupportedFeatureError(LanceError, NotImplementedError, OSError):
    """Stored bytes use a version, flag, encoding or type that this release does not support."""


class ResourcesExhaustedError(LanceError, MemoryError):
    """A statement needs more memory or disk space to spill to than its session allows."""


class StorageError(LanceError, OSError):
    """The store refused a request or failed."""


class JobFailedError(LanceError):
    """An engine could not finish a job: its workers died, or a function in the query failed."""


class JobCancelledError(JobFailedError):
    """A job of an engine was cancelled."""


class ForkedProcessError(LanceError, RuntimeError):
    """A forked child process needs threads that only its parent process has."""


class MissingDependencyError(LanceError, ImportError):
    """An optional package is not installed."""
