"""Make the data source known to a Spark session, and read with it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from lance_df.errors import InvalidInputError, MissingDependencyError
from lance_df.spark import arrow_checks
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.paths import path_for_driver
from lance_df.spark.requirements import require_java
from lance_df.spark.source import DynamicLanceSource, LanceSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

_PYTHON: Final = "spark.pyspark.python"
_OVERWRITES: Final = "spark.sql.sources.partitionOverwriteMode"
# Over TCP a Python task of a few rows waits for acknowledgements that come 40 ms late.
_SOCKETS: Final = "spark.python.unix.domain.socket.enabled"
CONNECT: Final = "sc://"
"""What URLs of servers of Spark Connect begin with."""


def session(master: str | None = None, *, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Return a session that reads and writes with ``format("lance_df")``: the active one, or a new one.

    Where it starts Spark, rows from Python are read without checks that they do not need: see
    `lance_df.spark.arrow_checks`. On this machine the workers run the Python of this process, unless
    ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` names another one, and Spark talks to them through Unix
    sockets where it can (``spark.python.unix.domain.socket.enabled``, Spark 4.1): small tasks take half the
    time.

    Parameters
    ----------
    master, conf
        As for ``spark-submit``, for a new session, or ``sc://…``, a server of Spark Connect.

    Raises
    ------
    MissingDependencyError
        There is no Java to start one with, or what Spark Connect needs is missing.
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
            # else the first python3 of the PATH, which is another one where an environment is not activated
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if sys.platform != "win32":
            given.setdefault(_SOCKETS, "true")
    for key, value in ({**arrow_checks.EXECUTORS, **given} if starts_spark else given).items():
        builder = builder.config(key, value)
    try:
        spark = builder.getOrCreate()
    except ImportError as err:  # of gRPC
        raise MissingDependencyError(f'Spark Connect needs pip install "lance_df[spark]": {err}') from err
    if starts_spark and not is_connect(spark):
        arrow_checks.leave_out_on_driver(spark)
    register(spark)
    return spark


def is_running() -> bool:
    """Whether there is a Spark in this process, which may have no session that is active in this thread."""
    context = sys.modules.get("pyspark.core.context")
    return context is not None and context.SparkContext._active_spark_context is not None


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: of a driver that is elsewhere."""
    return getattr(spark, "_sc", None) is None


def check_frame(df: object, what: str) -> None:
    """Check that an argument is a DataFrame of Spark.

    Raises
    ------
    InvalidInputError
        It is something else.
    """
    if not hasattr(df, "sparkSession"):
        raise InvalidInputError(f"{what} a DataFrame of Spark, not {type(df).__name__}")


def register(
    spark: SparkSession,
    root: str | os.PathLike[str] | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Let a session read and write with ``format("lance_df")``, in the thread that calls this.

    With ``root``, all tables and namespaces of a folder become temporary views, of the versions that are the
    newest. `lance_df.spark.sql` refreshes them; for ``spark.sql``, another call of this does.

    Spark looks for sources of Python in the active session of a thread, which this session becomes, as it is
    by ``createDataFrame``. Each other thread that reads or writes has to call this, too; the functions of
    `lance_df.spark` do.

    Spark does not pass the conditions of a query in a way that is right for every query: see `prune`, and the
    option ``filter``.

    Nor does it pass settings: ``spark.sql.sources.partitionOverwriteMode`` holds for writes as it is now, or
    at the next call of any function of `lance_df.spark`.

    Parameters
    ----------
    spark
        The session. Its executors need lance_df, too.
    root
        Of a folder with tables.
    storage_options
        For the fsspec filesystem of the folder.
    """
    make_known(spark, DynamicLanceSource if overwrites_dynamically(spark) else LanceSource)
    if root is not None:
        from lance_df.spark.folders import show_folder

        show_folder(spark, path_for_driver(root), storage_options)


def overwrites_dynamically(spark: SparkSession) -> bool:
    """Whether a session says that ``overwrite`` replaces the partitions that occur in the rows alone."""
    return str(spark.conf.get(_OVERWRITES, "static")).lower() == "dynamic"


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Let a session use a data source, in the thread that calls this."""
    make_active(spark)
    spark.dataSource.register(source)


def make_active(spark: SparkSession) -> None:
    """Make a session the active one of this thread: that is where Spark looks for names of data sources."""
    if is_connect(spark):  # which knows the session of a request
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
        There is no such table, version or column, or what else is wrong, with Spark's error as its cause.
    """
    register(spark)
    options: dict[str, str] = {}
    if isinstance(columns, str):
        raise InvalidInputError(f"columns is a list of names, not {columns!r}")
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
