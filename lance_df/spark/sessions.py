"""Make the data source known to a Spark session, and read with it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lance_df.spark.requirements import require_java
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource


def session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session that reads and writes with ``format("lance_df")``: the active one, or a new one.

    Parameters
    ----------
    master, conf
        As for ``spark-submit``, for a new session.

    Raises
    ------
    MissingDependencyError
        There is no Java to start one with.
    """
    from pyspark.sql import SparkSession

    if SparkSession.getActiveSession() is None:
        require_java()
    builder = SparkSession.builder if master is None else SparkSession.builder.master(master)
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Let a session read and write with ``format("lance_df")``, in the thread that calls this.

    Spark looks for sources of Python in the active session of a thread, which this session becomes, as it is
    by ``createDataFrame``. Each other thread that reads or writes has to call this, too; the functions of
    `lance_df.spark` do.

    Spark does not tell which rows of a DataFrame a query wants, in a way that is right for every query: see
    `read` and the option ``filter``.

    Parameters
    ----------
    spark
        The session. Its executors need lance_df, too.
    """
    make_known(spark, LanceSource)


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session use a data source, in the thread that calls this."""
    make_active(spark)
    spark.dataSource.register(source)


def make_active(spark: SparkSession) -> None:
    """Make a session the active one of this thread: that is where Spark looks for names of data sources."""
    context = getattr(spark, "_sc", None)
    if context is None:  # of Spark Connect, which knows the session of a request
        return
    sessions = getattr(context._jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(spark._jsparkSession)


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as in `LanceDataset.to_table`
    version: int | str | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows of a table or a partitioned namespace, of one version for all uses of the DataFrame.

    Parameters
    ----------
    path
        Of a table or a namespace.
    columns
        Those to read; all by default. Spark reads all of them, whatever a query selects later.
    filter
        An SQL expression, of lance_df's SQL: partitions, fragments and pages that it rules out are not read.
    version, branch
        A number or a tag; the newest version by default.
    storage_options
        For the fsspec filesystem.

    Raises
    ------
    LanceError
        Spark reports it as the cause of its own error.
    """
    register(spark)
    options: dict[str, str] = {}
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    if filter is not None:
        options["filter"] = filter
    if version is not None:
        options["tag" if isinstance(version, str) else "version"] = str(version)
    if branch is not None:
        options["branch"] = branch
    for name, value in (storage_options or {}).items():
        options[f"storage.{name}"] = json.dumps(value)
    return spark.read.format(LanceSource.name()).options(**options).load(str(path))
