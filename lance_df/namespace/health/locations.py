"""The folders that rows of ``__manifest`` name, also rows that other programs have written or damaged."""

from __future__ import annotations

import dataclasses
import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import CorruptDataError
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.health.repair_report import RepairAction, RepairKind
from lance_df.namespace.health.row_tables import with_column
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.names import member_of_folder
from lance_df.storage.listing import scan_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.namespace.health.rebuild import Rebuild
    from lance_df.namespace.health.survey import Survey
    from lance_df.storage import Location

# a single part that is neither "." nor ".." nor the folder of __manifest, as almost all locations are
_PLAIN: Final = r"\A[0-9A-Za-z][0-9A-Za-z_$.-]*\z"


def normal_locations(root: Location, locations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return locations without parts ``.`` and ``..``; those that name no folder of a table become NULL."""
    is_plain = pc.fill_null(pc.match_substring_regex(locations, _PLAIN), True)
    unusual = locations.filter(pc.invert(is_plain)).unique()
    if not len(unusual):
        return locations
    normal = pa.array([_normal(root, text) for text in unusual.to_pylist()], pa.string())
    return pc.if_else(is_plain, locations, normal.take(one_array(pc.index_in(locations, unusual))))


def are_invalid(root: Location, locations: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return which locations are not NULL and cannot be the folder of a table."""
    normal = pc.fill_null(normal_locations(root, locations), "")
    read = pc.replace_substring_regex(locations, pattern="/$", replacement="")
    return pc.or_(pc.fill_null(pc.not_equal(read, normal), False), pc.fill_null(pc.equal(read, ""), False))


def with_locations(survey: Survey) -> tuple[Survey, list[RepairAction]]:
    """Return a survey in which members have their folder or none, and the corrections as repair actions.

    Raises
    ------
    CorruptDataError
        Rows cannot be read.
    """
    rows = survey.rows()
    is_member = pc.and_(pc.equal(rows["object_type"], TABLE), is_spec_row(rows))
    is_wrong = pc.and_(is_member, are_invalid(survey.root, rows["location"]))
    new = pc.if_else(is_member, normal_locations(survey.root, rows["location"]), rows["location"])
    actions = []
    if pc.any(is_wrong).as_py():
        names, before = (rows[each].filter(is_wrong).to_pylist() for each in ("object_id", "location"))
        actions = [
            RepairAction(RepairKind.LOCATION, name, f"{path!r} instead of {former!r}")
            for name, former, path in zip(names, before, new.filter(is_wrong).to_pylist(), strict=True)
            if path is not None
        ]
    completed = with_column(rows, "location", new).combine_chunks()
    return dataclasses.replace(survey, completed=completed), actions


def attach_folders(rebuild: Rebuild) -> None:
    """Give open tables without a location the folder that is named after them, if only one is unnamed."""
    is_open = pc.and_(pc.equal(rebuild.open["object_type"], TABLE), rebuild.open["location"].is_null())
    if not pc.any(is_open).as_py():
        return
    named = set(first_parts(rebuild.root, rebuild.all_rows()))
    folders: dict[str, list[str]] = defaultdict(list)
    for entry in scan_folder(rebuild.root):
        if entry.is_directory and entry.name not in named and (name := member_of_folder(entry.name)):
            folders[name].append(entry.name)
    locations = rebuild.open["location"].to_pylist()
    names = rebuild.open["object_id"].to_pylist()
    for index, (name, lacks) in enumerate(zip(names, is_open.to_pylist(), strict=True)):
        if lacks and len(folders[name]) == 1:
            (locations[index],) = folders[name]
            rebuild.add_action(RepairKind.LOCATION, name, f"{locations[index]!r}, which is named after it")
    rebuild.open = with_column(rebuild.open, "location", pa.array(locations, pa.string()))


def first_parts(root: Location, rows: pa.Table) -> frozenset[str]:
    """Return the entries of the root that rows of tables name."""
    return frozenset(first for _, first in ids_and_first_parts(root, rows))


def ids_and_first_parts(root: Location, rows: pa.Table) -> Iterator[tuple[str, str]]:
    """Yield the ids of tables that have a valid location, and the entry of the root that it is below."""
    tables = rows.filter(pc.equal(rows["object_type"], TABLE))
    normal = normal_locations(root, tables["location"])
    ids, named = tables["object_id"].filter(normal.is_valid()), normal.drop_null()
    first = pc.list_element(pc.split_pattern(named, "/", max_splits=1), 0)
    return zip(ids.to_pylist(), first.to_pylist(), strict=True)


def unknown_folders(root: Location, rows: pa.Table) -> list[str]:
    """Return the ids of tables of which the folder is unknown: of members, also those without a location."""
    locations = normal_locations(root, rows["location"])
    lacks = pc.or_(rows["location"].is_valid(), is_spec_row(rows))
    is_unknown = pc.and_(pc.equal(rows["object_type"], TABLE), pc.and_(locations.is_null(), lacks))
    ids: list[str] = rows["object_id"].filter(is_unknown).to_pylist()
    return ids


def _normal(root: Location, location: str) -> str | None:
    if "://" in location:
        return None
    path = posixpath.normpath(location)
    try:
        folder_at(root, path)
    except CorruptDataError:
        return None
    return path
