"""SQL in Python over Lance tables, with DataFusion. Importing this loads no query engine."""

from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    CommitStateUnknownError,
    ConflictError,
    CorruptDataError,
    DatasetNotFoundError,
    IncompatibleConflictError,
    InvalidInputError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    RetryableConflictError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)

__all__ = [
    "AlreadyExistsError",
    "ColumnNotFoundError",
    "CommitStateUnknownError",
    "ConflictError",
    "CorruptDataError",
    "DatasetNotFoundError",
    "IncompatibleConflictError",
    "InvalidInputError",
    "LanceError",
    "MissingDependencyError",
    "NotFoundError",
    "RetryableConflictError",
    "StorageError",
    "UnsupportedFeatureError",
    "VersionNotFoundError",
]
