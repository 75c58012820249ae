"""`sql`: run Spark SQL statements over tables of lance_df, with pruning and with writes by table name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException

from lance_df.errors import (
    AlreadyExistsError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_df.format.column_path import format_path, parse_path
from lance_df.namespace.spec.partition_by import PartitionBy, parse_partition_by
from lance_df.spark.assignment import is_ansi
from lance_df.spark.column_names import is_case_sensitive
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.folders import METADATA, folders_of, is_shown
from lance_df.spark.named_tables import named_table, names_read
from lance_df.spark.named_versions import metadata_table, readable, show_metadata
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pruning.pruned import prune
from lance_df.spark.saving import write
from lance_df.spark.sessions import register
from lance_df.sql.spark_dialect import mentioned, quoted_names, with_backquotes, with_quoted_suffixes
from lance_df.sql.spark_statements import (
    OtherCreate,
    OtherInsert,
    SparkAlter,
    SparkChange,
    SparkCreate,
    SparkDrop,
    SparkInsert,
    SparkStatement,
    parse_spark,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lance_df.spark.pruning.relations import Relation

_DOUBLE_QUOTES: Final = "spark.sql.ansi.doubleQuotedIdentifiers"
_INSTEAD: Final = {
    "DELETE": ("delete", ", where=…"),
    "UPDATE": ("update", ", {column: expression}, where=…"),
    "MERGE": ("merge", ", source, on=…"),
    "TRUNCATE": ("delete", ""),
}
_OF_COLUMNS: Final = frozenset({"ADD", "DROP", "RENAME", "ALTER", "CHANGE", "REPLACE"})


def sql(spark: SparkSession, statement: str) -> DataFrame:
    """Run a Spark SQL statement. A query reads only the columns and partitions that it needs, see `prune`.

    Beyond ``spark.sql``, this function supports for tables of lance_df:

    - tables of the folders of ``register(spark, root)`` are at their newest versions;
    - ``FROM name VERSION AS OF 3`` or ``'tag'``, and ``TIMESTAMP AS OF '2025-01-01'`` in the session's time
      zone; for namespaces ``FROM name$partitions`` (``$files``, ``$history``, ``$specs``);
    - ``INSERT INTO name …`` and ``INSERT OVERWRITE name …`` need no ``WITH (path = '…')``;
    - ``CREATE TABLE name USING lance_df [PARTITIONED BY (…)] [LOCATION '…'] AS …`` creates a table or a
      partitioned namespace. Without LOCATION it is in the folder that was registered last. If a folder is
      registered, ``CREATE TABLE name AS …`` without USING does the same.

    Returns
    -------
    DataFrame
        The result of a query. It has no columns if the statement is not a query.

    Raises
    ------
    UnsupportedFeatureError
        Spark would accept the statement, but not apply it to the table: a list of columns without a query, or
        a change of columns. Or the name of a table is needed, and a view with a query is given.
    LanceError
        Another error. Spark's error is the cause.
    """
    register(spark)
    with errors_of_spark():
        if _has_quoted_names(spark):
            statement = with_backquotes(statement)
        statement = with_quoted_suffixes(statement, METADATA)
        change = parse_spark(statement)
        views = _Views(spark)
        views.refresh_mentioned(statement)
        try:
            return _run(spark, statement, change, views)
        except AnalysisException as err:
            missing = (err.getMessageParameters() or {}).get("relationName", "").strip("`").lower()
            if missing in views.failed:
                raise views.failed[missing] from err
            raise


def _has_quoted_names(spark: SparkSession) -> bool:
    """Whether double quotes enclose names in a session, not strings."""
    return is_ansi(spark) and str(spark.conf.get(_DOUBLE_QUOTES, "false")).lower() == "true"


def _run(spark: SparkSession, statement: str, change: SparkStatement | None, views: _Views) -> DataFrame:
    if isinstance(change, SparkInsert):
        target = named_table(spark, change.name, "INSERT")
        if target is not None:
            return _insert(spark, change, target, views)
    elif isinstance(change, SparkCreate) and (change.has_format or _is_for_folder(spark, change)):
        return _create(spark, change, views)
    elif change is not None:
        _refuse(spark, change)
    return _frame(spark, statement, views)


class _Views:
    """The views of the tables of registered folders, which one statement refreshes where it reads them.

    Attributes
    ----------
    failed
        The errors of tables that cannot be read, by their names in lower case. The statement may not need
        them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._folders = [(folder, folder.known_names()) for folder in folders_of(spark)]
        self._refreshed: set[str] = set()
        self.failed: dict[str, LanceError] = {}

    def refresh_mentioned(self, statement: str) -> None:
        """Refresh the views whose names occur in a statement."""
        self._refresh(lambda names: mentioned(statement, names))

    def refresh_read(self, statement: str) -> None:
        """Refresh the other views that a statement reads, through views, functions or variables."""
        if not self._folders:
            return
        metadata = set(quoted_names(statement))  # these are new already
        is_new = True
        while is_new:
            names = names_read(self._spark, statement)
            new = {name: about for name in names - metadata if (about := metadata_table(self._spark, name))}
            is_new = self._refresh_named(names | {table for table, _ in new.values()}) or bool(new)
            for name, (table, kind) in new.items():
                show_metadata(self._spark, name, table, kind)
            metadata |= new.keys()

    def refresh_again(self, name: str) -> None:
        """Refresh the view of a table that the statement has changed."""
        self._refreshed.discard(name.lower())
        self._refresh_named({name})

    def _refresh_named(self, names: Iterable[str]) -> bool:
        folded = {name.lower() for name in names}
        return self._refresh(lambda known: [name for name in known if name.lower() in folded])

    def _refresh(self, chosen: Callable[[list[str]], list[str]]) -> bool:
        """Refresh the views of the chosen names, and return whether any was not refreshed before."""
        count = len(self._refreshed)
        for folder, known in self._folders:
            names = [name for name in chosen(known) if name.lower() not in self._refreshed]
            errors = folder.show_all(self._spark, names)
            self.failed |= {name.lower(): error for name, error in errors.items()}
            self._refreshed |= {name.lower() for name in names}  # of earlier folders in the list
        return len(self._refreshed) > count


def _frame(spark: SparkSession, statement: str, views: _Views) -> DataFrame:
    """Return the DataFrame of a query, which may name versions and metadata tables of namespaces."""
    versions: dict[str, str] = {}
    try:
        text = readable(spark, statement, versions)
        views.refresh_read(text)
        return prune(spark.sql(text))
    finally:
        for version in versions:  # the plan of the DataFrame has their plans already
            spark.catalog.dropTempView(version)


def _insert(spark: SparkSession, change: SparkInsert, target: Relation, views: _Views) -> DataFrame:
    shown = ".".join(change.name)
    if target.options.filter is not None or target.options.columns is not None:
        raise InvalidInputError(
            f"INSERT: {shown} has the option filter or columns, which is only for reading"
        )
    if target.options.version is not None or target.options.branch not in (None, "main"):
        option = "branch" if target.options.version is None else "version or tag"
        raise InvalidInputError(
            f"INSERT: {shown} has the option {option}, which is only for reading; name the table itself"
        )
    # the columns in Spark's order: a catalog keeps the order of its creation
    names = list(change.columns) or spark.table(format_path(change.name)).columns
    if (twice := next((name for name in names if names.count(name) > 1), None)) is not None:
        raise InvalidInputError(f"INSERT: column {twice!r} of {shown} is named twice")
    rows = _frame(spark, change.query, views)
    if len(rows.columns) != len(names):
        raise InvalidInputError(
            f"INSERT: the query has {len(rows.columns)} columns, but {shown} has {len(names)}: "
            f"{', '.join(names)}"
        )
    mode = "overwrite" if change.is_overwrite else "append"
    storage = target.options.storage or None
    # the table keeps its columns, as in Spark's own tables
    write(rows.toDF(*names), target.options.path, mode=mode, overwrite_schema=False, storage_options=storage)
    if len(change.name) == 1:
        views.refresh_again(change.name[0])
    if _has_cached(spark):
        spark.catalog.refreshTable(format_path(change.name))
    return _nothing(spark)


def _has_cached(spark: SparkSession) -> bool:
    """Whether the session has cached rows. Spark finds the cached plans that depend on a table by itself."""
    session: Any = spark
    return not session._jsparkSession.sharedState().cacheManager().isEmpty()


def _is_for_folder(spark: SparkSession, change: SparkCreate) -> bool:
    """Whether a table without a format is one of the folder that was registered last, not of the catalog."""
    return bool(folders_of(spark)) and len(change.name) == 1


def _create(spark: SparkSession, change: SparkCreate, views: _Views) -> DataFrame:
    shown = ".".join(change.name)
    if change.is_replaced:
        raise UnsupportedFeatureError(
            f"CREATE OR REPLACE TABLE {shown} is not supported; use lance_df.spark.write(df, path, "
            "mode='overwrite')"
        )
    if change.has_columns or (change.query is None and change.path is None):
        raise UnsupportedFeatureError(
            f"CREATE TABLE {shown} USING lance_df: Spark would create a table that cannot be read. Use "
            "CREATE TABLE … USING lance_df LOCATION '…' AS SELECT …, or the LOCATION of an existing "
            "table, without columns"
        )
    folders = folders_of(spark)
    if change.path is None and (not folders or len(change.name) > 1):
        raise InvalidInputError(
            f"CREATE TABLE {shown}: add LOCATION '…', or register a folder with "
            "lance_df.spark.register(spark, root)"
        )
    if change.query is not None and _is_in_catalog(spark, change):
        return _nothing(spark)
    if change.path is not None:
        path = path_for_driver(change.path)
    else:
        path = folders[0].new_path(change.name[0])
        if not is_case_sensitive(spark) and folders[0].has_other_case(change.name[0]):
            if change.if_not_exists:
                return _nothing(spark)
            raise AlreadyExistsError(
                f"CREATE TABLE {shown}: a table whose name differs only in case already exists"
            )
    is_new = False
    if change.query is not None:
        rows = _frame(spark, change.query, views)
        try:
            write(rows, path, partition_by=_partition_fields(change.partition_by) or None)
            is_new = True
        except AlreadyExistsError:
            if not change.if_not_exists:
                raise
    if change.path is None:
        folders[0].show(spark, change.name[0], replaces=is_new)
        return _nothing(spark)
    words = "IF NOT EXISTS " if change.if_not_exists else ""
    location = path.replace("\\", "\\\\").replace("'", "\\'")
    name = format_path(change.name)
    return spark.sql(f"CREATE TABLE {words}{name} USING lance_df LOCATION '{location}'")


def _partition_fields(texts: Sequence[str]) -> list[PartitionBy]:
    """Return the fields of PARTITIONED BY, with the names of quoted columns."""
    fields = []
    for each in map(parse_partition_by, texts):
        columns = [parse_path(name)[0] if name.startswith("`") else name for name in each.columns]
        fields.append(replace(each, columns=tuple(columns)))
    return fields


def _is_in_catalog(spark: SparkSession, change: SparkCreate) -> bool:
    """Return whether the catalog already has the table that a statement creates.

    Raises
    ------
    AlreadyExistsError
        It does, and the statement does not say IF NOT EXISTS.
    NotFoundError
        The database does not exist.
    """
    shown = ".".join(change.name)
    database = format_path(change.name[:-1]) or None
    if database is not None and not spark.catalog.databaseExists(database):
        raise NotFoundError(f"CREATE TABLE {shown}: database {database} does not exist")
    parents = change.name[:-1] or parse_path(spark.catalog.currentDatabase())
    # a name with its database is never that of a temporary view
    exists = spark.catalog.tableExists(format_path([*parents, change.name[-1]]))
    if exists and not change.if_not_exists:
        raise AlreadyExistsError(f"CREATE TABLE {shown}: a table of this name already exists in the catalog")
    return exists


def _refuse(spark: SparkSession, change: SparkStatement) -> None:
    """Refuse statements that Spark would run incorrectly, or refuse with an unhelpful message."""
    if isinstance(change, OtherCreate):
        raise UnsupportedFeatureError(
            "CREATE TABLE … USING lance_df … AS supports only PARTITIONED BY (…) and LOCATION '…'"
        )
    if isinstance(change, OtherInsert) and named_table(spark, change.name, "INSERT") is not None:
        raise UnsupportedFeatureError(
            f"{'.'.join(change.name)} supports only INSERT INTO or OVERWRITE name [(columns)] query, not "
            "BY NAME, PARTITION or REPLACE WHERE"
        )
    if isinstance(change, SparkChange):
        _refuse_change(spark, change)
    if isinstance(change, SparkAlter):
        _refuse_columns(spark, change)
    if isinstance(change, SparkDrop):
        _refuse_drop(spark, change)


def _refuse_change(spark: SparkSession, change: SparkChange) -> None:
    target = named_table(spark, change.name, change.verb)
    if target is not None:
        name, arguments = _INSTEAD[change.verb]
        raise UnsupportedFeatureError(
            f"{change.verb} of {'.'.join(change.name)} is not supported by Spark's Python data sources; call "
            f"lance_df.spark.{name}(spark, {target.options.path!r}{arguments})"
        )


def _refuse_drop(spark: SparkSession, change: SparkDrop) -> None:
    *parents, name = change.name
    if parents or not is_shown(spark, name):
        return
    for folder in folders_of(spark):
        if any(name.lower() == each.lower() for each in folder.names()):
            raise UnsupportedFeatureError(
                f"DROP {change.kind} {name}: the table is in {folder.uri} and would appear again; use "
                f"lance_df.connect({folder.uri!r}).sql('DROP TABLE {name}') to remove it"
            )


def _refuse_columns(spark: SparkSession, change: SparkAlter) -> None:
    if change.action.split(" ")[0] not in _OF_COLUMNS:
        return
    shown = ".".join(change.name)
    if named_table(spark, change.name, f"ALTER TABLE {shown}") is not None:
        raise UnsupportedFeatureError(
            f"ALTER TABLE {shown} {change.action}: Spark would change only its catalog, not the table. Use "
            "lance_df.dataset(path).add_columns(…), alter_columns(…) or drop_columns(…), and create the "
            "table of the catalog again"
        )


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.range(0).select()
