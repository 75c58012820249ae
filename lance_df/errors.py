"""The exception tree: one base, and a subclass for each thing the reader of a message can do.

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
    ├── ConflictError (OSError)                somebody else committed first
    │   ├── RetryableConflictError             run the operation again on the new version
    │   └── IncompatibleConflictError          decide by hand
    ├── CommitStateUnknownError                read the table before trying again
    ├── RowCountMismatchError                  report it: a defect stopped a commit that would lose rows
    ├── CorruptDataError                       restore the file
    ├── UnsupportedFeatureError (NotImplementedError, OSError)   valid data, newer than this reader
    ├── ResourcesExhaustedError (MemoryError)  raise the limit of the session, or let it spill
    ├── StorageError (OSError)                 credentials, network, permissions
    ├── JobFailedError                         read the cause, and run the job again
    │   └── JobCancelledError                  run it again if it was not meant
    ├── ForkedProcessError (RuntimeError)      start the process with spawn
    └── MissingDependencyError (ImportError)   install the extra that is named

The built-in exceptions in parentheses are bases too: pylance raises these for the same mistakes, so that
programs written for it catch ours.

Messages say what happened, to which file, column or version, what was read and what was expected.
They never hold credentials or storage options. Every error pickles with its message.
"""


class LanceError(Exception):
    """Base of everything that this package raises on purpose."""

    def __str__(self) -> str:
        """Return the message, with escapes for bytes of file names that are no text: Arrow wants UTF-8."""
        # not of the next class: KeyError shows the representation of its message
        return Exception.__str__(self).encode("utf-8", "backslashreplace").decode()


class InvalidInputError(LanceError, ValueError, OSError):
    """The call is wrong: an argument, a predicate or a statement."""


class NotFoundError(LanceError, LookupError):
    """Something that was named does not exist."""


class DatasetNotFoundError(NotFoundError, ValueError, OSError):
    """There is no Lance table at this place."""


class VersionNotFoundError(NotFoundError, ValueError, OSError):
    """The table has no such version, tag or branch."""


class ColumnNotFoundError(NotFoundError, KeyError, ValueError, OSError):
    """The table has no such column."""


class IndexNotFoundError(NotFoundError, KeyError, RuntimeError):
    """The table has no such index."""


class AlreadyExistsError(LanceError, ValueError, OSError):
    """The name is taken."""


class IndexAlreadyExistsError(AlreadyExistsError, RuntimeError):
    """The table has an index of this name."""


class ConflictError(LanceError, OSError):
    """Another writer committed first."""

    @property
    def retryable(self) -> bool:
        """Whether the operation may succeed when it is computed again from the newest version."""
        return isinstance(self, RetryableConflictError)


class RetryableConflictError(ConflictError):
    """The same operation may succeed when it is computed again from the newest version."""


class IncompatibleConflictError(ConflictError):
    """The other commit makes this operation meaningless."""


class CommitStateUnknownError(LanceError):
    """A commit may or may not have landed."""


class RowCountMismatchError(LanceError):
    """A commit would lose rows, or hold some twice: a defect of what computed it. Nothing was published."""


class CorruptDataError(LanceError):
    """Stored bytes contradict the format."""


class UnsupportedFeatureError(LanceError, NotImplementedError, OSError):
    """Stored bytes use a version, flag, encoding or type that this release does not know."""


class ResourcesExhaustedError(LanceError, MemoryError):
    """A statement needs more memory, or room to spill to, than its session may take."""


class StorageError(LanceError, OSError):
    """The store refused or failed."""


class JobFailedError(LanceError):
    """An engine could not run a job to its end: its workers died, or a function of the query failed."""


class JobCancelledError(JobFailedError):
    """Somebody stopped a job of an engine."""


class ForkedProcessError(LanceError, RuntimeError):
    """A forked child needs threads that only its parent has."""


class MissingDependencyError(LanceError, ImportError):
    """An optional package is not installed."""
