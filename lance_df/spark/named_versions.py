"""Resolve names that only `lance_df.spark.sql` knows: versions and metadata tables of namespaces."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Final
from uuid import uuid4
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
from pyspark.sql import functions as F

from lance_df.engine.session import SessionContext
from lance_df.engine.tables.names import register as register_table
from lance_df.engine.tables.source import TableSource
from lance_df.engine.tables.version_text import VersionKind, VersionText
from lance_df.errors import NotFoundError, UnsupportedFeatureError
from lance_df.format.column_path import quoted_name
from lance_df.spark.column_names import is_case_sensitive
from lance_df.spark.folders import METADATA, is_shown, note_view
from lance_df.spark.named_tables import named_table
from lance_df.spark.opened import SourceRef
from lance_df.spark.sessions import read
from lance_df.spark.types import arrow_schema, spark_schema, to_spark
from lance_df.sql.spark_dialect import SPARK_NAMES, first_words, quoted_names
from lance_df.sql.time_travel import with_versions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lance_df.spark.pruning.relations import Relation

_PREFIX: Final = "__lance_df_"
_KEEP_TEXT: Final = frozenset({"CREATE", "CACHE", "ALTER"})


def readable(spark: SparkSession, statement: str, made: dict[str, str]) -> str:
    """Return a statement with views in place of versions, after creating the views of metadata tables.

    ``made`` receives the views of versions, with the names of their tables.
    """

    def version(name: str, kind: str, which: str) -> str:
        clause = "TIMESTAMP AS OF" if kind == "time" else "VERSION AS OF"
        target = named_table(spark, (name,), clause)
        if target is None:
            raise NotFoundError(f"{clause}: {name!r} is not a table of lance_df in this session")
        view = f"{_PREFIX}{uuid4().hex}"
        made[view] = name
        _read(spark, target, kind, which).createOrReplaceTempView(view)
        return view

    text = with_versions(statement, version, SPARK_NAMES)
    words = first_words(text) if made else []
    if words[:1] and words[0] in _KEEP_TEXT and words != ["CREATE", "TABLE"]:
        raise UnsupportedFeatureError(
            f"{words[0]} keeps the text of its query, which cannot name a version; create a view of "
            "lance_df.spark.sql(spark, 'SELECT …') with createOrReplaceTempView, or cache() it"
        )
    for view, name in made.items():
        if re.search(rf"\.\s*`{view}`", text):
            raise UnsupportedFeatureError(
                "VERSION AS OF supports only tables of the current database; switch to the database of "
                f"{name!r} with USE first"
            )
    for name in set(quoted_names(statement)):
        if about := metadata_table(spark, name):
            show_metadata(spark, name, *about)
    return text


def metadata_table(spark: SparkSession, name: str) -> tuple[str, str] | None:
    """Return the table and the kind of a metadata table such as ``events$files``; None for other names."""
    about, _, kind = name.rpartition("$")
    if not is_case_sensitive(spark):
        kind = kind.lower()
    return (about, kind) if about and kind in METADATA else None


def _read(spark: SparkSession, target: Relation, kind: str, which: str) -> DataFrame:
    """Return another version of a named table, read with the same options."""
    options = target.options
    number: int | str = which
    if kind == "time":
        moment = VersionText(VersionKind.TIME, _with_zone(spark, which))
        number = TableSource(target.source, is_pinned=True).at(moment).current().version
    elif kind == "version":
        number = int(which)
    return read(
        spark,
        options.path,
        columns=options.columns,
        filter=options.filter,
        version=number,
        # a tag names its branch
        branch=target.source.branch if isinstance(number, int) else None,
        storage_options=options.storage or None,
    )


def _with_zone(spark: SparkSession, text: str) -> str:
    """Return a time with the zone of the session, unless it has a zone or is not a time."""
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
    """Return the UTC offset of a zone at a local time, computed by Spark."""
    local = moment.isoformat(sep=" ")
    row = spark.range(1).select(F.to_utc_timestamp(F.lit(local), name).cast("string").alias("utc")).first()
    assert row is not None
    return moment - dt.datetime.fromisoformat(row["utc"])


def show_metadata(spark: SparkSession, view: str, name: str, kind: str) -> None:
    """Create the view of a metadata table, unless something else has its name or the table is unknown."""
    if spark.catalog.tableExists(quoted_name(view)) and not is_shown(spark, view):
        return
    target = named_table(spark, (name,), view)
    if target is None:
        return
    ctx = SessionContext()
    options = target.options
    register_table(ctx, "t", options.path, version=options.version, storage_options=options.storage or None)
    rows = ctx.sql(f'SELECT * FROM "t${kind}"').to_arrow_table()
    schema = arrow_schema(spark_schema(rows.schema))
    shown = pa.Table.from_batches([to_spark(batch, schema) for batch in rows.to_batches()], schema)
    spark.createDataFrame(shown).createOrReplaceTempView(quoted_name(view))
    note_view(spark, view, SourceRef.of(target.source, options))
