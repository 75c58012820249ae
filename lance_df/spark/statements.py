"""`sql`: statements of Spark over tables of lance_df, which read less, and write without options."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from lance_df.engine.session import SessionContext
from lance_df.engine.tables.names import register as register_table
from lance_df.engine.tables.source import TableSource
from lance_df.engine.tables.version_text import VersionKind, VersionText
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.format.column_path import format_path, quoted_name
from lance_df.spark.column_names import is_case_sensitive
from lance_df.spark.failures import errors_of_spark
from lance_df.spark.folders import METADATA, folders_of
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pruning.plans import Plans, relations
from lance_df.spark.pruning.pruned import prune
from lance_df.spark.pruning.relations import Relation
from lance_df.spark.saving import write
from lance_df.spark.sessions import is_connect, read, register
from lance_df.spark.types import arrow_schema, spark_schema, to_spark
from lance_df.sql.spark_statements import SparkAlter, SparkCreate, SparkInsert, names_in, parse_spark
from lance_df.sql.time_travel import with_versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OF_COLUMNS: Final = frozenset({"ADD", "DROP", "RENAME", "ALTER", "CHANGE", "REPLACE"})
_PREFIX: Final = "__lance_df_"
_DROP: Final = re.compile(
    r"\s*DROP\s+(TABLE|VIEW)\s+(IF\s+EXISTS\s+)?(?:`([^`]+)`|(\w+))(?:\s+PURGE)?\s*;?\s*", re.IGNORECASE
)
_OTHER_CREATE: Final = re.compile(
    r"\s*CREATE\s+TABLE\b.*?\bUSING\s+`?lance_df\b.*?\bAS\s+(SELECT|WITH|TABLE|VALUES|FROM|\()",
    re.IGNORECASE | re.DOTALL,
)
_OTHER_INSERT: Final = re.compile(
    r"(?:WITH\b.*\)|FROM\s.*)?\s*INSERT\s+(?:INTO|OVERWRITE)\s+(?:TABLE\s+)?(?:`([^`]+)`|(\w+))"
    r"(?!\s*\.)(?!.*\bWITH\s*\(\s*path)",
    re.IGNORECASE | re.DOTALL,
)
_KEEPS_TEXT: Final = re.compile(r"\s*(CREATE|CACHE|ALTER)\b", re.IGNORECASE)


def sql(spark: SparkSession, statement: str) -> DataFrame:
    """Run a statement of Spark's SQL; a query reads what it needs and no more, see `prune`.

    Beyond what ``spark.sql`` does with tables of lance_df:

    - tables of folders that ``register(spark, root)`` has are at their newest versions;
    - ``FROM name VERSION AS OF 3`` or ``'tag'``, and ``TIMESTAMP AS OF '2025-01-01'``, in the zone of the
      session; ``FROM `name$partitions``` (``$files``, ``$history``, ``$specs``) for namespaces;
    - ``INSERT INTO name …`` and ``INSERT OVERWRITE name …`` need no ``WITH (path = '…')``;
    - ``CREATE TABLE name USING lance_df [PARTITIONED BY (…)] [LOCATION '…'] AS …`` makes a table, or a
      partitioned namespace. Without LOCATION it is in the folder that was registered last.

    Returns
    -------
    DataFrame
        Of no columns for what is no query.

    Raises
    ------
    UnsupportedFeatureError
        What Spark accepts, and what the table would not have: listed columns without rows, other columns.
    LanceError
        What else is wrong, with Spark's error as its cause.
    """
    register(spark)
    wanted = {name.lower() for name in names_in(statement)}
    for folder in folders_of(spark):
        names = [name for name in folder.known_names() if name.lower() in wanted]
        folder.show(spark, names)
        wanted -= {name.lower() for name in names}  # of folders that came before
    with errors_of_spark():
        change = parse_spark(statement)
        if isinstance(change, SparkInsert):
            target = _target(spark, change.name)
            if target is not None:
                return _insert(spark, change, target)
        elif isinstance(change, SparkCreate):
            return _create(spark, change)
        elif isinstance(change, SparkAlter):
            _refuse_columns(spark, change)
        else:
            _refuse_drop(spark, statement)
            _refuse_other_forms(spark, statement)
        return _frame(spark, statement)


def _frame(spark: SparkSession, statement: str) -> DataFrame:
    """Return the frame of a query, in which versions and tables about namespaces may be named."""
    views: dict[str, str] = {}
    try:
        return prune(spark.sql(_readable(spark, statement, views)))
    finally:
        for view in views:  # the plan of the frame has what they stand for
            spark.catalog.dropTempView(view)


def _readable(spark: SparkSession, statement: str, made: dict[str, str]) -> str:
    """Return a statement in which versions and tables about namespaces are views.

    ``made`` receives the views of versions, with the names of their tables.
    """

    def version(name: str, kind: str, which: str) -> str:
        clause = "TIMESTAMP" if kind == "time" else "VERSION"
        target = _target(spark, (name,))
        if target is None:
            raise NotFoundError(f"{clause} AS OF: {name!r} is no table of lance_df in this session")
        view = f"{_PREFIX}{uuid4().hex}"
        made[view] = name
        storage = target.options.storage or None
        if kind == "time":
            source = TableSource(target.options.path, storage_options=storage)
            moment = VersionText(VersionKind.TIME, _with_zone(spark, which))
            number: int | str = source.at(moment).current().version
        else:
            number = which if kind == "tag" else int(which)
        read(spark, target.options.path, version=number, storage_options=storage).createOrReplaceTempView(
            view
        )
        return view

    text = with_versions(statement, version)
    if made and (word := _KEEPS_TEXT.match(text)) is not None:
        raise UnsupportedFeatureError(
            f"{word[1].upper()} keeps the text of its query, which cannot name a version: make a view of "
            "lance_df.spark.sql(spark, 'SELECT …') by createOrReplaceTempView, or cache() that"
        )
    for view, name in made.items():
        if re.search(rf'\.\s*"{view}"', text):
            raise UnsupportedFeatureError(
                f"VERSION AS OF takes the name of a table of the current database: USE the one of {name!r} "
                "before"
            )
        text = text.replace(f'"{view}" AS "{name}"', f"{quoted_name(view)} AS {quoted_name(name)}")
        text = text.replace(f'"{view}"', quoted_name(view))
    for name in set(names_in(statement)):
        about, _, kind = name.rpartition("$")
        if about and kind in METADATA:
            _show_metadata(spark, about, kind)
    return text


def _with_zone(spark: SparkSession, text: str) -> str:
    """Return a time with the zone of the session, unless it names one or is no time."""
    try:
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return text
    if moment.tzinfo is not None:
        return text
    name = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        zone: dt.tzinfo = ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError):  # such as +2:00, GMT+2 or PST
        zone = dt.timezone(_offset_of(spark, name, moment))
    return moment.replace(tzinfo=zone).isoformat()


def _offset_of(spark: SparkSession, name: str, moment: dt.datetime) -> dt.timedelta:
    """Return how far a zone that Spark knows is from UTC at a local time."""
    local = moment.isoformat(sep=" ")
    row = spark.range(1).select(F.to_utc_timestamp(F.lit(local), name).cast("string").alias("utc")).first()
    assert row is not None
    return moment - dt.datetime.fromisoformat(row["utc"])


def _show_metadata(spark: SparkSession, name: str, kind: str) -> None:
    target = _target(spark, (name,))
    if target is None:
        raise NotFoundError(f"{name}${kind}: {name!r} is no table of lance_df in this session")
    ctx = SessionContext()
    register_table(ctx, name, target.options.path, storage_options=target.options.storage or None)
    rows = ctx.sql(f'SELECT * FROM "{name}${kind}"').to_arrow_table()
    schema = arrow_schema(spark_schema(rows.schema))
    shown = pa.Table.from_batches([to_spark(batch, schema) for batch in rows.to_batches()], schema)
    spark.createDataFrame(shown).createOrReplaceTempView(quoted_name(f"{name}${kind}"))


def _target(spark: SparkSession, name: tuple[str, ...]) -> Relation | None:
    """Return the table of lance_df that a name stands for, None for another one, or none."""
    joined = format_path(name)
    if is_connect(spark) or not spark.catalog.tableExists(joined):
        return None
    held: Any = spark.table(joined)._jdf
    plans = Plans(spark)
    held_relations = list(relations(held.queryExecution().analyzed()))
    return Relation.of(held_relations[0], plans) if len(held_relations) == 1 else None


def _insert(spark: SparkSession, change: SparkInsert, target: Relation) -> DataFrame:
    shown = ".".join(change.name)
    if target.options.filter is not None or target.options.columns is not None:
        raise InvalidInputError(f"INSERT: {shown} has the option filter or columns, which is for reading")
    names = list(change.columns) or target.source.arrow_schema.names
    rows = _frame(spark, change.query)
    if len(rows.columns) != len(names):
        raise InvalidInputError(
            f"INSERT: the query has {len(rows.columns)} columns, {shown} takes {len(names)}: "
            f"{', '.join(names)}"
        )
    mode = "overwrite" if change.is_overwrite else "append"
    storage = target.options.storage or None
    # as for tables of Spark's own, the columns stay
    write(rows.toDF(*names), target.options.path, mode=mode, overwrite_schema=False, storage_options=storage)
    return _nothing(spark)


def _create(spark: SparkSession, change: SparkCreate) -> DataFrame:
    shown = ".".join(change.name)
    if change.is_replaced:
        raise UnsupportedFeatureError(
            f"CREATE OR REPLACE TABLE {shown}: write with lance_df.spark.write(df, path, mode='overwrite')"
        )
    if change.has_columns or (change.query is None and change.path is None):
        raise UnsupportedFeatureError(
            f"CREATE TABLE {shown} USING lance_df: Spark would keep a table that cannot be read. Say "
            "CREATE TABLE … USING lance_df LOCATION '…' AS SELECT …, or name the LOCATION of one that is "
            "there, without columns"
        )
    folders = folders_of(spark)
    if change.path is None and (not folders or len(change.name) > 1):
        raise InvalidInputError(
            f"CREATE TABLE {shown}: say LOCATION '…', or register a folder: "
            "lance_df.spark.register(spark, root)"
        )
    if change.path is not None:
        path = path_for_driver(change.path)
        if change.query is not None and _is_in_catalog(spark, change):
            return _nothing(spark)
    else:
        path = folders[0].new_path(change.name[0])
        if not is_case_sensitive(spark) and folders[0].has_other_case(change.name[0]):
            if change.if_not_exists:
                return _nothing(spark)
            raise AlreadyExistsError(f"CREATE TABLE {shown}: there is one whose name differs in case")
    if change.query is not None:
        rows = _frame(spark, change.query)
        try:
            write(rows, path, partition_by=list(change.partition_by) or None)
        except AlreadyExistsError:
            if not change.if_not_exists:
                raise
    if change.path is None:
        folders[0].show(spark, change.name)
        return _nothing(spark)
    words = "IF NOT EXISTS " if change.if_not_exists else ""
    location = path.replace("\\", "\\\\").replace("'", "\\'")
    name = format_path(change.name)
    return spark.sql(f"CREATE TABLE {words}{name} USING lance_df LOCATION '{location}'")


def _is_in_catalog(spark: SparkSession, change: SparkCreate) -> bool:
    """Return whether the catalog has a table that a statement would make if it were not there.

    Raises
    ------
    AlreadyExistsError
        It has one, and the statement does not say IF NOT EXISTS.
    NotFoundError
        There is no such database.
    """
    shown = ".".join(change.name)
    database = format_path(change.name[:-1]) or None
    if database is not None and not spark.catalog.databaseExists(database):
        raise NotFoundError(f"CREATE TABLE {shown}: there is no database {database}")
    tables = spark.catalog.listTables(database)
    exists = any(not table.isTemporary and table.name.lower() == change.name[-1].lower() for table in tables)
    if exists and not change.if_not_exists:
        raise AlreadyExistsError(f"CREATE TABLE {shown}: the catalog has a table of this name")
    return exists


def _refuse_drop(spark: SparkSession, statement: str) -> None:
    drop = _DROP.fullmatch(statement)
    if drop is None:
        return
    name = (drop[3] or drop[4]).lower()
    for folder in folders_of(spark):
        if any(name == each.lower() for each in folder.names()):
            raise UnsupportedFeatureError(
                f"DROP {drop[1].upper()} {name}: the table is in {folder.uri}, and would come back. "
                f"lance_df.connect({folder.uri!r}).sql('DROP TABLE {name}') removes it"
            )


def _refuse_other_forms(spark: SparkSession, statement: str) -> None:
    """Refuse what `parse_spark` does not read, and what Spark says of which does not help."""
    if _OTHER_CREATE.match(statement):
        raise UnsupportedFeatureError(
            "CREATE TABLE … USING lance_df … AS takes PARTITIONED BY (…) and LOCATION '…', and nothing else"
        )
    insert = _OTHER_INSERT.match(statement)
    if insert is not None and _target(spark, (insert[1] or insert[2],)) is not None:
        raise UnsupportedFeatureError(
            f"{insert[1] or insert[2]} takes INSERT INTO or OVERWRITE name [(columns)] query, and neither "
            "BY NAME, PARTITION nor REPLACE WHERE"
        )


def _refuse_columns(spark: SparkSession, change: SparkAlter) -> None:
    if change.action.split(" ")[0] in _OF_COLUMNS and _target(spark, change.name) is not None:
        shown = ".".join(change.name)
        raise UnsupportedFeatureError(
            f"ALTER TABLE {shown} {change.action}: Spark would change its catalog, and not the table. Use "
            "lance_df.dataset(path).add_columns(…), alter_columns(…) or drop_columns(…), and create the "
            "table of the catalog again"
        )


def _nothing(spark: SparkSession) -> DataFrame:
    return spark.range(0).select()
