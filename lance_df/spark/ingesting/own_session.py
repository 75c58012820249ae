"""Create a separate session for an ingest, in a Spark that runs already or in a new one."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pyspark.sql import SparkSession

from lance_df.errors import InvalidInputError
from lance_df.spark.failures import OF_SPARK
from lance_df.spark.ingesting.sink import IngestSink
from lance_df.spark.sessions import (
    CONNECT,
    is_connect,
    is_running,
    make_active,
    make_known,
    register,
    session,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_df.spark.ingesting.job import IngestJob

# for new sessions; FATAL because Spark logs each task error several times, although it is also raised
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "FATAL",
}


@contextmanager
def ingest_session(job: IngestJob, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """Create a separate session for a job, from the given or the active session or in a new Spark.

    Raises
    ------
    MissingDependencyError
        A new Spark needs Java, which is not installed.
    InvalidInputError
        Spark runs already, and cannot get the configuration of the job.
    """
    base = spark if spark is not None else SparkSession.getActiveSession()
    is_ours = base is None and not is_running()
    if base is None:
        base = _started(job)
    try:
        # a Spark that was started for the job has the job's settings
        if not is_ours:
            _check_master(base, job.master)
        session_of_job = _beside(base)
        try:
            _configure(session_of_job, {} if is_ours and not is_connect(session_of_job) else job.conf)
            with _active(session_of_job, base):
                register(session_of_job)
                make_known(session_of_job, IngestSink)
                yield session_of_job
        finally:
            _release(session_of_job)
    finally:
        if is_ours:
            base.stop()


def _started(job: IngestJob) -> SparkSession:
    # workers run the Python of this environment
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    of_server = job.master is not None and job.master.startswith(CONNECT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about versions of pandas
        return session(job.master, conf={} if of_server else {**_QUIET, **job.conf})


def _check_master(base: SparkSession, master: str | None) -> None:
    if master is None:
        return
    if is_connect(base):
        # a client does not know the address of its server
        if not master.startswith(CONNECT):
            raise InvalidInputError(f"Spark already runs through Spark Connect, not on {master}")
    elif master != base.sparkContext.master:
        raise InvalidInputError(f"Spark already runs on {base.sparkContext.master}, not on {master}")


def _beside(base: SparkSession) -> SparkSession:
    """Return a new session with the configuration of another one, and with Connect also its artifacts."""
    if is_connect(base):
        clone: SparkSession = base.cloneSession()  # type: ignore[attr-defined]
        return clone
    session_of_job = base.newSession()
    for key, value in base.conf.getAll.items():
        if session_of_job.conf.isModifiable(key):
            session_of_job.conf.set(key, value)
    return session_of_job


def _release(session_of_job: SparkSession) -> None:
    """Release a session on its server; `stop` would also stop a server in this process."""
    if is_connect(session_of_job):
        with suppress(*OF_SPARK):
            session_of_job.client.release_session()
            session_of_job.client.close()


@contextmanager
def _active(session_of_job: SparkSession, base: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread within the context."""
    make_active(session_of_job)
    try:
        yield
    finally:
        make_active(base)


def _configure(session_of_job: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if session_of_job.conf.get(key, None) == value:
            continue
        if not session_of_job.conf.isModifiable(key):
            raise InvalidInputError(f"{key} cannot be set because Spark is already running")
        session_of_job.conf.set(key, value)
