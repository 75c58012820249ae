"""What is read out of the texts of Spark's errors, without Spark."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import AnalysisException, PySparkException

from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
)
from lance_df.spark.failures import errors_of_spark, typed_errors

CALL = "An error occurred while calling o131.save.\n: org.apache.spark.SparkException: "
LOST = (
    f"{CALL}Job aborted due to stage failure: Task 0 in stage 2.0 failed 2 times, most recent failure: "
    "Lost task 0.1 in stage 2.0 (TID 5) (10.0.0.7 executor 3): "
)
CASES = {
    "cancelled": (
        Py4JError(
            f"{CALL}[SPARK_JOB_CANCELLED] Job 3 cancelled part of cancelled job group g SQLSTATE: XXKDA\n"
        ),
        JobCancelledError,
        "Spark: Job 3 cancelled part of cancelled job group g [SPARK_JOB_CANCELLED]",
    ),
    "crashed": (
        Py4JError(
            f"{LOST}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). "
            "Consider setting 'spark.python.worker.faulthandler.enabled'\n\tat org.apache"
        ),
        JobFailedError,
        "Spark: Task 0 in stage 2.0 failed 2 times: Python worker exited unexpectedly (crashed).",
    ),
    "executor": (
        Py4JError(
            f"{LOST}ExecutorLostFailure (executor 3 exited) Reason: exit code 137: killed\nDriver stacktrace:"
        ),
        JobFailedError,
        "Spark: Task 0 in stage 2.0 failed 2 times: ExecutorLostFailure (executor 3 exited) "
        "Reason: exit code 137: killed",
    ),
    "function": (
        PySparkException(
            "An exception was thrown:\nTraceback (most recent call last):\n  File x\nKeyError: 'ü'\n"
        ),
        JobFailedError,
        "Spark: a Python function failed: KeyError: 'ü'",
    ),
    "ours": (
        Py4JError(
            f"{LOST}Traceback (most recent call last):\nlance_df.errors.CorruptDataError: f: no footer\n"
        ),
        CorruptDataError,
        "f: no footer",
    ),
    "thread": (
        Py4JError(f"{CALL}[DATA_SOURCE_NOT_FOUND] Failed to find the data source: lance_df. Make sure"),
        InvalidInputError,
        "call lance_df.spark.register(spark) here",
    ),
    "jvm": (Py4JError(f"{CALL}java.io.IOException: no space left\n\tat x"), JobFailedError, "no space left"),
    "gone": (
        Py4JNetworkError("Answer from Java side is empty"),
        JobFailedError,
        "Spark: Answer from Java side",
    ),
    "silent": (Py4JError(""), JobFailedError, "Spark: Py4JError"),
}
OF_QUERIES = {
    "column": (
        AnalysisException("[UNRESOLVED_COLUMN.WITH_SUGGESTION] no `x`. SQLSTATE: 42703"),
        ColumnNotFoundError,
    ),
    "plan": (
        AnalysisException(
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] no `x`. SQLSTATE: 42703; line 1 pos 7;\n'Project ['x]\n"
            "+- Filter raise_error(concat(\nlance_df.errors.CorruptDataError: f: no footer, y\n))"
        ),
        ColumnNotFoundError,
    ),
    "file": (Py4JError(f"{CALL}[FAILED_READ_FILE.FILE_NOT_EXIST] f is gone. SQLSTATE: KD001"), NotFoundError),
    "value": (PySparkException("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"), InvalidInputError),
    "other": (AnalysisException("so it is not"), InvalidInputError),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("errors", [typed_errors, errors_of_spark])
def test_failures_of_jobs(name, errors):
    found, kind, message = CASES[name]
    with pytest.raises(kind) as raised, errors():
        raise found
    assert message in str(raised.value)
    assert type(raised.value) is kind
    assert raised.value.__cause__ is found


@pytest.mark.parametrize("name", OF_QUERIES)
def test_failures_of_queries_stay_sparks_own_where_the_code_is_not_ours(name):
    found, kind = OF_QUERIES[name]
    with pytest.raises(kind) as raised, errors_of_spark():
        raise found
    assert raised.value.__cause__ is found
    with pytest.raises(type(found)), typed_errors():
        raise found


@pytest.mark.parametrize(
    ("cause", "kind", "said"),
    [
        (
            "org.apache.spark.SparkException: [MALFORMED_RECORD] records are\nwrong.  SQLSTATE: 22023",
            CorruptDataError,
            "records are wrong",
        ),
        (
            "org.apache.spark.SparkIllegalArgumentException: the header is wrong\n Header: a",
            InvalidInputError,
            "the header is wrong Header: a",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_why(cause, kind, said):
    report = f"{CALL}[FAILED_READ_FILE.NO_HINT] Error in f.  SQLSTATE: KD001\n\tat x\n"
    causes = f"Caused by: {cause}\n\tat y\nCaused by: z.Inner: no\n"
    with pytest.raises(kind) as raised, errors_of_spark():
        raise Py4JError(report + causes)
    assert str(raised.value) == f"Spark: Error in f: {said} [FAILED_READ_FILE.NO_HINT]"


def test_other_errors_pass():
    for errors in (typed_errors, errors_of_spark):
        with pytest.raises(KeyError), errors():
            raise KeyError("x")
