"""Complete the base columns of ``__manifest`` if another program has removed them or changed their types."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import CorruptDataError, LanceError
from lance_df.namespace.directory.names import TABLE_SUFFIX
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.health.survey import older_surveys
from lance_df.namespace.manifest_table import NAMESPACE, TABLE
from lance_df.storage.listing import scan_folder

if TYPE_CHECKING:
    from lance_df.namespace.health.survey import Survey
    from lance_df.storage import Location

_FOLDER: Final = re.compile(r"[0-9a-f]{8}_(.+)", re.ASCII | re.DOTALL)


def with_base_columns(survey: Survey) -> Survey:
    """Return a survey whose rows have all base columns.

    Values come from the newest older version that has these columns, otherwise from the other columns and
    from the names of folders.

    Raises
    ------
    CorruptDataError
        Neither ids nor locations are left.
    """
    lost = {each.name for each in survey.lost_base}
    if not lost:
        return survey
    if lost >= {"object_id", "location"}:
        raise CorruptDataError(
            f"{survey.table.uri}: version {survey.table.version} has neither the column object_id nor the "
            "column location: restore an older version that has them"
        )
    rows = survey.rows()
    past = _past(survey, rows.schema)
    if "object_id" in lost:
        rows = _with_ids(rows, past)
    for name in ("location", "object_type", "metadata"):
        if name in lost:
            known = one_array(past[name]).take(_positions(rows["object_id"], past["object_id"]))
            rows = with_column(rows, name, known)
    if "location" in lost:
        rows = _with_locations(survey.root, rows)
    if "object_type" in lost:
        # only tables have a folder
        kinds = pc.if_else(rows["location"].is_valid(), TABLE, NAMESPACE)
        rows = with_column(rows, "object_type", pc.coalesce(rows["object_type"], kinds))
    return dataclasses.replace(survey, completed=rows.combine_chunks())


def _past(survey: Survey, schema: pa.Schema) -> pa.Table:
    """Return the rows of the newest older version that has the base columns; no rows if there is none."""
    for older in older_surveys(survey):
        if older.lost_base:
            continue
        try:
            rows = older.rows()
        except LanceError:  # an interrupted clean-up has removed its files
            continue
        names = [name for name in schema.names if name in rows.column_names]
        return pa.concat_tables([schema.empty_table(), rows.select(names)], promote_options="default")
    return schema.empty_table()


def _positions(wanted: pa.ChunkedArray, known: pa.ChunkedArray) -> pa.Array:
    return pc.index_in(one_array(wanted), value_set=one_array(known))


def _with_ids(rows: pa.Table, past: pa.Table) -> pa.Table:
    """Return the rows of tables with ids, and the namespaces of an older version.

    Other namespaces of tables are made again from the tables.
    """
    tables = rows.filter(rows["location"].is_valid())
    known = one_array(past["object_id"]).take(_positions(tables["location"], past["location"]))
    names = pa.array([_id_of(location) for location in tables["location"].to_pylist()], pa.string())
    tables = with_column(tables, "object_id", pc.coalesce(known, names))
    return joined(tables, past.filter(pc.equal(past["object_type"], NAMESPACE)))


def _with_locations(root: Location, rows: pa.Table) -> pa.Table:
    """Return rows in which tables without a known location have the folder that is named after them."""
    folders = {_id_of(entry.name): entry.name for entry in scan_folder(root) if entry.is_directory}
    named = [folders.get(name) for name in rows["object_id"].to_pylist()]
    return with_column(rows, "location", pc.coalesce(rows["location"], pa.array(named, pa.string())))


def _id_of(folder: str) -> str:
    """Return the id of the table that a folder was made for."""
    match = _FOLDER.fullmatch(folder)
    return folder.removesuffix(TABLE_SUFFIX) if match is None else match[1]
