"""What Spark says about a source, a query or a task that failed, as errors of this package."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotFoundError,
)
from lance_df.spark.failures import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator

# "[CONDITION] message SQLSTATE: 12345"
_TOLD: Final = re.compile(r"\[([A-Z][A-Z_]+(?:\.[A-Z0-9_]+)*)\] (.+?) SQLSTATE: (\w{5})", re.DOTALL)
_KINDS: Final[tuple[tuple[str, type[LanceError]], ...]] = (
    ("PATH_NOT_FOUND", NotFoundError),
    ("TABLE_OR_VIEW_NOT_FOUND", NotFoundError),
    ("SCHEMA_NOT_FOUND", NotFoundError),
    ("FAILED_READ_FILE.FILE_NOT_EXIST", NotFoundError),
    ("FAILED_READ_FILE", CorruptDataError),
    ("UNRESOLVED_COLUMN", ColumnNotFoundError),
    ("DATA_SOURCE_NOT_FOUND", InvalidInputError),
)
# classes of SQLSTATE: values that an expression does not take, and what is no query
_OF_VALUES, _OF_QUERIES = "22", "42"


@contextmanager
def errors_of_spark() -> Iterator[None]:
    """Raise errors of this package, with Spark's report as the cause.

    Raises
    ------
    LanceError
        Of the class that says what to do, where Spark's report tells.
    """
    try:
        yield
    except (PySparkException, Py4JError) as err:
        raise cause_of(err) or translated(err) from err


def translated(error: Exception) -> LanceError:
    """Return an error of Spark as one of this package."""
    text = str(error)
    found = _TOLD.search(text)
    is_wrong_use = isinstance(error, AnalysisException | IllegalArgumentException)
    other = InvalidInputError if is_wrong_use else LanceError
    if found is None:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return other(f"Spark: {lines[0] if lines else type(error).__name__}")
    condition, message, state = found.groups()
    kind = _kind(condition, state) or other
    return kind(f"Spark: {message.splitlines()[0].rstrip('.')} [{condition}]")


def _kind(condition: str, state: str) -> type[LanceError] | None:
    for name, kind in _KINDS:
        if condition == name or condition.startswith(f"{name}."):
            return kind
    return InvalidInputError if state[:2] in (_OF_VALUES, _OF_QUERIES) else None
