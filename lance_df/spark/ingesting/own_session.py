"""A session of an ingest's own, beside one that runs already, or in a Spark that is started for it."""

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

# of sessions that are started here
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def ingest_session(job: IngestJob, spark: SparkSession | None = None) -> Iterator[SparkSession]:
    """Give a job a session of its own, beside the given or the active one, or in a new Spark.

    Raises
    ------
    MissingDependencyError
        There is no Java to start one with.
    InvalidInputError
        Spark runs already, and its configuration cannot become that of the job.
    """
    base = spark if spark is not None else SparkSession.getActiveSession()
    is_ours = base is None and not is_running()
    if base is None:
        base = _started(job)
    try:
        # a Spark that was started for the job is as it says
        if not is_ours:
            _check_master(base, job.master)
        own = _beside(base)
        try:
            _configure(own, {} if is_ours and not is_connect(own) else job.conf)
            with _active(own, base):
                register(own)
                make_known(own, IngestSink)
                yield own
        finally:
            _release(own)
    finally:
        if is_ours:
            base.stop()


def _started(job: IngestJob) -> SparkSession:
    # workers are to be of this environment
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    of_server = job.master is not None and job.master.startswith(CONNECT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark, about versions of pandas
        return session(job.master, conf={} if of_server else {**_QUIET, **job.conf})


def _check_master(base: SparkSession, master: str | None) -> None:
    if master is None:
        return
    if is_connect(base):
        # it is not told which server it is
        if not master.startswith(CONNECT):
            raise InvalidInputError(f"Spark runs through Spark Connect already, not on {master}")
    elif master != base.sparkContext.master:
        raise InvalidInputError(f"Spark runs on {base.sparkContext.master} already, not on {master}")


def _beside(base: SparkSession) -> SparkSession:
    """Return a new session with the configuration of another one; through Connect with its artifacts, too."""
    if is_connect(base):
        clone: SparkSession = base.cloneSession()  # type: ignore[attr-defined]
        return clone
    own = base.newSession()
    for key, value in base.conf.getAll.items():
        if own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def _release(own: SparkSession) -> None:
    """Let the server forget a session; `stop` would stop a server of this process, too."""
    if is_connect(own):
        with suppress(*OF_SPARK):
            own.client.release_session()
            own.client.close()


@contextmanager
def _active(own: SparkSession, base: SparkSession) -> Iterator[None]:
    """Make a session the active one of this thread for a while."""
    make_active(own)
    try:
        yield
    finally:
        make_active(base)


def _configure(own: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in conf.items():
        if own.conf.get(key, None) == value:
            continue
        if not own.conf.isModifiable(key):
            raise InvalidInputError(f"{key} cannot be set: Spark runs already")
        own.conf.set(key, value)
