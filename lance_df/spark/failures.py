"""Convert Spark's reports of failed queries, tasks and commits to errors of this package."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

from lance_df import errors
from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    JobCancelledError,
    JobFailedError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_SPARK: tuple[type[Exception], ...]
"""The errors that Spark raises."""

try:
    from py4j.protocol import Py4JError
except ImportError:  # raised by clients of Spark Connect
    OF_SPARK = (PySparkException,)
else:
    OF_SPARK = (PySparkException, Py4JError)


def is_of_other_release(error: Exception) -> bool:
    """Whether an error means that this release of Spark lacks a class or method."""
    return (type(error).__name__ == "Py4JError" and "does not exist" in str(error)) or (
        isinstance(error, TypeError) and "JavaPackage" in str(error)
    )


# The last line of a Python traceback, as it stands in the messages of Spark.
_RAISED: Final = re.compile(r"^\s*lance_df\.errors\.(\w+): (.*)$", re.MULTILINE)
# "[CONDITION] message SQLSTATE: 12345"
_CONDITION: Final = re.compile(r"\[([A-Z][A-Z_]+(?:\.[A-Z0-9_]+)*)\] (.+?) SQLSTATE: (\w{5})", re.DOTALL)
_KINDS: Final[tuple[tuple[str, type[LanceError]], ...]] = (
    ("PATH_NOT_FOUND", NotFoundError),
    ("TABLE_OR_VIEW_NOT_FOUND", NotFoundError),
    ("SCHEMA_NOT_FOUND", NotFoundError),
    ("FAILED_READ_FILE.FILE_NOT_EXIST", NotFoundError),
    ("FAILED_READ_FILE", CorruptDataError),
    ("UNRESOLVED_COLUMN", ColumnNotFoundError),
    ("DATA_SOURCE_NOT_FOUND", InvalidInputError),
    ("UNSUPPORTED_FEATURE", UnsupportedFeatureError),
    ("SPARK_JOB_CANCELLED", JobCancelledError),
    ("OPERATION_CANCELED", JobCancelledError),
)
# classes of SQLSTATE: invalid values in an expression, and invalid queries
_OF_VALUES, _OF_QUERIES = "22", "42"
# a task that died or failed in each attempt: its name, and its last message
_LOST: Final = re.compile(
    r"stage failure: (Task \S+ in stage \S+ failed \d+ times), most recent failure: "
    r"Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): (?:[\w.$]+(?:Exception|Error): )?(.*)$",
    re.MULTILINE,
)
# the message of the cause, up to the JVM's stack trace
_CAUSE: Final = re.compile(r"^Caused by: ([\w.$]+): (.+?)(?=^\s+at |\Z)", re.MULTILINE | re.DOTALL)
_OF_FILE, _WRONG_USE = "FAILED_READ_FILE", "IllegalArgumentException"
_UNKNOWN_SOURCE: Final = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: lance_df"
_NO_PARTITIONING: Final = "provided partitioning"
_OF_SOURCE: Final = "lance_df"
_SAVE_MODE: Final = "[UNSUPPORTED_DATA_SOURCE_SAVE_MODE]"
_IN_PYTHON: Final = "Traceback (most recent call last):"
_ADVICE: Final = " Consider setting 'spark."


@contextmanager
def typed_errors() -> Iterator[None]:
    """Raise errors of this package from tasks with their own class, and Spark's report as the cause.

    Other Spark errors do not change, except those of jobs that were cancelled or failed.

    Raises
    ------
    JobCancelledError
        A job was cancelled.
    JobFailedError
        The processes of a task died, or a Python function of the query failed.
    LanceError
        A task or a commit failed.
    """
    try:
        yield
    except OF_SPARK as err:
        cause = cause_of(err)
        if cause is None:
            cause = translated(err)
            if not isinstance(cause, JobFailedError):
                raise
        raise cause from err


@contextmanager
def errors_of_spark() -> Iterator[None]:
    """Raise all errors of Spark as errors of this package, with Spark's report as the cause.

    Raises
    ------
    LanceError
        Of the class that Spark's report allows to determine.
    """
    try:
        yield
    except OF_SPARK as err:
        raise cause_of(err) or translated(err) from err


def cause_of(error: BaseException) -> LanceError | None:
    """Return the error of this package that an error of Spark contains, or None."""
    text = str(error)
    if _UNKNOWN_SOURCE in text:
        return InvalidInputError(
            "the data source lance_df is not registered in this thread; call "
            "lance_df.spark.register(spark) here"
        )
    if _SAVE_MODE in text and _OF_SOURCE in text:
        return UnsupportedFeatureError(
            "Spark supports only the modes append and overwrite for Python data sources; use one of them, "
            "or call lance_df.spark.write(df, path, mode='errorifexists' or 'ignore')"
        )
    if _NO_PARTITIONING in text and isinstance(error, OF_SPARK):
        return UnsupportedFeatureError(
            "Spark does not pass partitionBy to Python data sources. To create a partitioned namespace, "
            "call lance_df.spark.write(df, path, mode=…, partition_by=[…]); to write to an existing one, "
            "leave out partitionBy"
        )
    raised = _RAISED.findall(text)
    if not raised or _is_of_query(error, text):
        return None
    name, message = raised[-1]
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LanceError)):
        return None
    return kind(message)


def _is_of_query(error: BaseException, text: str) -> bool:
    """Whether an error is about a query. Its text has the plan, which may name errors that nobody raised."""
    condition = _CONDITION.match(text) if isinstance(error, AnalysisException) else None
    return condition is not None and condition[3][:2] == _OF_QUERIES


def translated(error: Exception) -> LanceError:
    """Return an error of Spark as one of this package."""
    text = str(error)
    is_wrong_use = isinstance(error, AnalysisException | IllegalArgumentException)
    reported = _CONDITION.search(text)
    if reported is not None:
        condition, message, state = reported.groups()
        kind = _kind(condition, state) or (InvalidInputError if is_wrong_use else JobFailedError)
        said = message.splitlines()[0].rstrip(". ")
        cause = _CAUSE.search(text, reported.end()) if condition.startswith(_OF_FILE) else None
        if cause is not None:
            kind = InvalidInputError if cause[1].endswith(_WRONG_USE) else kind
            said += f": {' '.join(_without_state(cause[2]).split()).rstrip('.')}"
        return kind(f"Spark: {said} [{condition}]")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if is_wrong_use:
        return InvalidInputError(f"Spark: {lines[0] if lines else type(error).__name__}")
    lost = _LOST.search(text)
    if lost is not None:
        return JobFailedError(f"Spark: {lost[1]}: {lost[2].partition(_ADVICE)[0]}")
    if _IN_PYTHON in lines:
        return JobFailedError(f"Spark: a Python function failed: {lines[-1]}")
    return JobFailedError(f"Spark: {_first(lines) or type(error).__name__}")


def _without_state(message: str) -> str:
    reported = _CONDITION.match(message)
    return message if reported is None else reported[2]


def _first(lines: list[str]) -> str:
    """Return the first line that is more than the name of the failed JVM call."""
    saying = [line for line in lines if not line.startswith("An error occurred while calling")]
    return next(iter(saying or lines), "").removeprefix(": ")


def _kind(condition: str, state: str) -> type[LanceError] | None:
    for name, kind in _KINDS:
        if condition == name or condition.startswith(f"{name}."):
            return kind
    return InvalidInputError if state[:2] in (_OF_VALUES, _OF_QUERIES) else None
