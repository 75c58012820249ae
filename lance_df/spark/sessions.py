"""Register the data source in a Spark session, and read with it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from lance_df.errors import InvalidInputError, MissingDependencyError
from lance_df.spark import arrow_checks
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.overwriting import pass_session_mode
from lance_df.spark.paths import path_for_driver
from lance_df.spark.requirements import require_java
from lance_df.spark.source import LanceSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

_PYTHON: Final = "spark.pyspark.python"
# Over TCP, a Python task with a few rows waits for acknowledgements that arrive 40 ms late.
_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
CONNECT: Final = "sc://"
"""The beginning of the URLs of Spark Connect servers."""


def session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return the active session or a new one, which reads and writes with ``format("lance_df")``.

    If this function starts Spark, rows from Python are read without checks that they do not need; see
    `lance_df.spark.arrow_checks`. Workers on this machine run the same Python as this process, unless
    ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names another one. Where possible, Spark connects to them
    through Unix sockets (``spark.python.unix.domain.socket.enabled``, Spark 4.1), which halves the time of
    small tasks.

    Parameters
    ----------
    master, conf
        As for ``spark-submit``, for a new session. ``master`` may be the URL of a Spark Connect server,
        ``sc://…``.

    Raises
    ------
    MissingDependencyError
        A new session needs Java, or Spark Connect needs a package, which is not installed.
    """
    from pyspark.sql import SparkSession

    builder, given, starts_spark = SparkSession.builder, dict(conf or {}), False
    if master is not None and master.startswith(CONNECT):
        builder = builder.remote(master)
    else:
        if SparkSession.getActiveSession() is None:
            require_java()
            starts_spark = not is_running()
        if master is not None:
            builder = builder.master(master)
    if starts_spark and (master is None or master.startswith("local")):
        if _PYTHON not in given:
            # otherwise workers run the first python3 of the PATH, which may belong to another environment
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if sys.platform != "win32":
            given.setdefault(_SOCKETS, "true")
    for key, value in ({**arrow_checks.EXECUTORS, **given} if starts_spark else given).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except ImportError as err:  # of gRPC
        raise MissingDependencyError(f'Spark Connect requires pip install "lance_df[spark]": {err}') from err
    if starts_spark and not is_connect(spark):
        arrow_checks.leave_out_on_driver(spark)
    register(spark)
    return spark


def is_running() -> bool:
    """Whether Spark runs in this process, even if no session is active in this thread."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._active_spark_context is not None


def is_connect(spark: SparkSession) -> bool:
    """Whether a session belongs to Spark Connect, whose driver is another process."""
    return getattr(spark, "_sc", None) is None


def check_frame(df: object, what: str) -> None:
    """Check that an argument is a Spark DataFrame.

    Raises
    ------
    InvalidInputError
        The argument is something else.
    """
    if not hasattr(df, "sparkSession"):
        raise InvalidInputError(f"{what} a Spark DataFrame, got {type(df).__name__}")


def register(
    spark: SparkSession,
    root: str | os.PathLike[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Let a session read and write with ``format("lance_df")`` in the calling thread.

    With ``root``, all tables and namespaces of a folder become temporary views of their newest versions.
    `lance_df.spark.sql` refreshes the views. If you use ``spark.sql``, call this function again to refresh
    them.

    Spark searches for Python data sources in the active session of a thread. This function makes ``spark``
    the active session, as ``createDataFrame`` does. Each other thread that reads or writes has to call it,
    too; all functions of `lance_df.spark` do so.

    Spark does not push down conditions in a way that is correct for every query: see `prune` and the option
    ``filter``.

    Spark does not pass settings to the source either. From the first call on, ``save`` and ``saveAsTable`` of
    PySpark's writers pass the session's ``spark.sql.sources.partitionOverwriteMode`` to this source.

    Parameters
    ----------
    spark
        The session. Its executors need lance_df, too.
    root
        A folder with tables.
    storage_options
        Options for the fsspec filesystem of the folder.
    """
    make_known(spark, LanceSource)
    pass_session_mode(_writer_of(spark))
    if root is not None:
        from lance_df.spark.folders import show_folder

        show_folder(spark, path_for_driver(root), storage_options)


def _writer_of(spark: SparkSession) -> type[Any]:
    """Return the class of the writers of a session's DataFrames."""
    if is_connect(spark):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        return ConnectWriter
    from pyspark.sql.readwriter import DataFrameWriter

    return DataFrameWriter


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session use a data source in the calling thread."""
    make_active(spark)
    spark.dataSource.register(source)


def make_active(spark: SparkSession) -> None:
    """Make a session the active one of this thread, in which Spark searches for data sources."""
    if is_connect(spark):  # the server knows the session of a request
        return
    sessions = getattr(spark._sc._jvm, "org.apache.spark.sql.classic.SparkSession")
    sessions.setActiveSession(spark._jsparkSession)


def read(
    spark: SparkSession,
    path: str | os.PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    filter: str | None = None,
    version: int | str | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Return the rows of one version of a table or a partitioned namespace, for all uses of the DataFrame.

    Parameters
    ----------
    path
        Path of a table or a namespace.
    columns
        Columns to read; all by default. Spark reads all of them, even if a query selects fewer later.
    filter
        An expression in lance_df's SQL. Partitions, fragments and pages that it rules out are not read.
    version, branch
        The number or tag of a version, and its branch; the newest version by default.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    LanceError
        The table, version or column does not exist, or the read fails. Spark's error is the cause.
    """
    register(spark)
    options: dict[str, str] = {}
    if isinstance(columns, str):
        raise InvalidInputError(f"columns must be a list of names, got {columns!r}")
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
    from lance_df.spark.decimals import can_cross_as_integers, with_decimals

    options["decimalsAsIntegers"] = str(can_cross_as_integers(spark))
    with errors_of_spark():
        return with_decimals(
            spark.read.format(LanceSource.name()).options(**options).load(path_for_driver(path))
        )
