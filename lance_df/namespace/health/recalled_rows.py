"""Restore rows of ``__manifest`` from older versions that had them, or had them complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import LanceError, NotFoundError
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.health.check_members import MemberRow, pinned_table
from lance_df.namespace.health.contradictions import sorted_out
from lance_df.namespace.health.orphans import ids_of_folder
from lance_df.namespace.health.repair_report import RepairKind
from lance_df.namespace.health.row_tables import joined, value_columns, with_column
from lance_df.namespace.health.set_aside import add_others
from lance_df.namespace.health.spread import in_threads
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.manifest_table import NAMESPACE, READ_FIELDS

if TYPE_CHECKING:
    from lance_df.namespace.health.rebuild import Rebuild
    from lance_df.storage import Location


def recall(rebuild: Rebuild, known: pa.Table, version: int) -> None:
    """Complete open rows from rows of an older version with the same id, type and folder.

    Parameters
    ----------
    known
        Correct rows of the older version.
    """
    indices = pc.index_in(rebuild.open["object_id"], value_set=one_array(known["object_id"]))
    past = known.take(one_array(indices))
    is_same = pc.fill_null(pc.equal(rebuild.open["object_type"], past["object_type"]), False)
    mine, theirs = (pc.fill_null(rows["location"], "") for rows in (rebuild.open, past))
    is_same = pc.and_(is_same, pc.equal(mine, theirs))
    is_known = pc.equal(rebuild.open["object_type"], NAMESPACE)
    # an older row without any of these is no better
    for name in ("read_version", "read_tag", *value_columns(rebuild.specs)):
        if name in past.column_names:
            is_known = pc.or_(is_known, past[name].is_valid())
    is_same = pc.and_(is_same, pc.fill_null(is_known, False))
    if not (number := pc.sum(is_same).as_py()):
        return
    completed = rebuild.open.filter(is_same)
    past = past.filter(is_same)
    # the older version may be from before later changes of the table
    is_named = _names_later_version(rebuild, completed, past)
    for name in (*(each.name for each in READ_FIELDS), *value_columns(rebuild.specs)):
        if name in past.column_names:
            is_version = name in {each.name for each in READ_FIELDS}
            column = pc.if_else(is_named, completed[name], past[name]) if is_version else past[name]
            completed = with_column(completed, name, column)
    rebuild.good = joined(rebuild.good, completed)
    rebuild.open = rebuild.open.filter(pc.invert(is_same))
    text = f"read versions and partition values of {number:,} rows"
    rebuild.add_action(RepairKind.RECALLED, f"version {version}", text)


def _names_later_version(rebuild: Rebuild, rows: pa.Table, past: pa.Table) -> pa.Array:
    """Return which rows name an existing version of their own table that is not before that of a past row."""
    flags = _names_version(rows, rebuild.renamed).to_pylist()
    mine, theirs = (_members(each) for each in (rows, past))
    # most rows are as they were, so their tables are not opened
    changed = [index for index, flag in enumerate(flags) if flag and mine[index].named != theirs[index].named]
    later = in_threads(lambda index: _is_later(rebuild.root, mine[index], theirs[index]), changed)
    for index, flag in zip(changed, later, strict=True):
        flags[index] = flag
    return pa.array(flags, pa.bool_())


def _members(rows: pa.Table) -> list[MemberRow]:
    names = ["object_id", "location", *(each.name for each in READ_FIELDS)]
    return [MemberRow(**row, key=None, spec=None) for row in rows.select(names).to_pylist()]


def _is_later(root: Location, member: MemberRow, past: MemberRow) -> bool:
    """Whether a row names an existing version, which is not before that of a past row on the same branch."""
    version, before = member.read_version, past.read_version
    is_before = version is not None and before is not None and version < before
    if member.location is None or (is_before and member.read_branch == past.read_branch):
        return False
    try:
        pinned_table(folder_at(root, member.location), member)
    except NotFoundError:
        return False
    except LanceError:  # it exists, but is damaged
        return True
    return True


def _names_version(rows: pa.Table, renamed: frozenset[str]) -> pa.ChunkedArray:
    """Return which rows name a version, or a tag, of their own table."""
    version, branch, tag = (rows[each.name].is_valid() for each in READ_FIELDS)
    is_tag = pc.and_(tag, pc.invert(pc.or_(version, branch)))
    is_named = pc.or_(is_tag, pc.and_(version, pc.invert(tag)))
    return pc.and_(is_named, pc.invert(pc.is_in(rows["object_id"], pa.array(sorted(renamed), pa.string()))))


def bring_back(rebuild: Rebuild, rows: pa.Table, version: int) -> set[str]:
    """Add missing rows of tables whose folders exist, and return these folders.

    They replace rows with the same id that name no folder or the folder of another table. If another table
    has been given the id since, they get another id. Rows that were set aside are set aside again.

    Parameters
    ----------
    rows
        Rows of an older version, each of which names a folder that no row names now.
    """
    is_member_row = is_spec_row(rows)
    aside = rows.filter(pc.invert(is_member_row))
    deduplicated = sorted_out(rows.filter(is_member_row))
    rows = joined(deduplicated.rows, deduplicated.others)
    is_back = pc.is_in(rebuild.open["object_id"], one_array(rows["object_id"]))
    rebuild.open = rebuild.open.filter(pc.invert(pc.and_(is_back, rebuild.open["location"].is_null())))
    taken = {*rebuild.good["object_id"].to_pylist(), *rebuild.open["object_id"].to_pylist()}
    ids = []
    for name, location in zip(*(rows[each].to_pylist() for each in ("object_id", "location")), strict=True):
        others = (each for each in ids_of_folder(location) if each not in taken)
        ids.append(new := name if name not in taken else next(others))
        taken.add(new)
        _did_bring_back(rebuild, new, name, version)
    rows = with_column(rows, "object_id", pa.array(ids, pa.string()))
    rebuild.good = joined(rebuild.good, rows)
    is_back = pc.is_in(rebuild.misplaced["object_id"], one_array(rows["object_id"]))
    rebuild.misplaced = rebuild.misplaced.filter(pc.invert(is_back))
    if len(aside):
        before = aside["object_id"].to_pylist()
        for new, name in zip(add_others(rebuild, aside, before), before, strict=True):
            _did_bring_back(rebuild, new, name, version)
    return {*rows["location"].to_pylist(), *aside["location"].to_pylist()}


def _did_bring_back(rebuild: Rebuild, name: str, former: str, version: int) -> None:
    text = f"as in version {version}, without later changes"
    if name != former:
        text += f"; it was {former}, which is now another table"
    rebuild.add_action(RepairKind.BROUGHT_BACK, name, text)
