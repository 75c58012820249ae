"""Check the rows of ``__manifest`` for consistency: names, levels, inherited values and duplicates.

Spec: partitioning, "Physical Layout and Naming" and "Manifest Table Schema". Checks work on columns, not on
single rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.namespace.health.findings import REPAIR, Problem, ProblemKind, error, info, warning
from lance_df.namespace.health.locations import are_invalid, normal_locations
from lance_df.namespace.health.row_tables import with_column
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import NAMESPACE, READ_FIELDS, TABLE
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR
from lance_df.namespace.spec.partition_spec import KEY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
    from lance_df.storage import Location

_SEGMENT = "[a-z0-9]{16}"
_LIKE_MEMBER = rf"^[vV][0-9][^$]*\$(.*\$)?{MEMBER_NAME}$"
UNPUBLISHED = "no version to read"
NO_PARENT = "the row of its parent namespace is missing"
# predicates on the namespace search for rows only in the partition of their values
MOVE_ROWS = (
    "read the rows, delete them from the table itself, repair(root, publish_newer=True), and append them to "
    "the namespace"
)
_SHARED = (
    f"{REPAIR}: an older version may show which table each row belongs to. Dropping one would remove the "
    "folder of all"
)


def check_rows(survey: Survey, rows: pa.Table) -> list[Problem]:
    """Return the problems of the rows of a version."""
    problems = [*_duplicates(rows, "object_id", "rows have the id", REPAIR), *_types(rows)]
    if survey.specs is None:
        return problems
    spec_rows = rows.filter(is_spec_row(rows))
    problems += _unknown_specs(spec_rows, survey.specs)
    for spec in survey.specs:
        problems += _spec_row(spec_rows, spec)
        below = spec_rows.filter(pc.starts_with(spec_rows["object_id"], spec.name + SEPARATOR))
        problems += _names(below, spec)
        tables = below.filter(pc.equal(below["object_type"], TABLE))
        problems += _pins(survey.root, tables)
        if survey.has_values:
            problems += _values(below, spec, survey.specs)
            problems += _twins(tables, spec)
    tables = rows.filter(pc.equal(rows["object_type"], TABLE))
    folders = with_column(tables, "location", normal_locations(survey.root, tables["location"]))
    problems += _duplicates(folders, "location", "tables have the folder", _SHARED)
    problems += _outside_specs(tables, survey.specs)
    return problems


def row_keys(rows: pa.Table, columns: list[str]) -> pa.Array:
    """Return the key of each row's values in some columns."""
    if not len(rows):
        return pa.array([], pa.large_binary())
    return value_keys([one_array(rows[name]) for name in columns])


def _duplicates(rows: pa.Table, column: str, text: str, advice: str) -> Iterator[Problem]:
    counts = pc.value_counts(one_array(rows[column].drop_null()))
    values, numbers = counts.field("values"), counts.field("counts")
    several = pc.greater(numbers, 1)
    pairs = zip(values.filter(several).to_pylist(), numbers.filter(several).to_pylist(), strict=True)
    for value, number in pairs:
        yield error(ProblemKind.DUPLICATE, value, f"{number} {text} {value!r}", "one", advice)


def _types(rows: pa.Table) -> Iterator[Problem]:
    known = pc.is_in(rows["object_type"], pa.array([NAMESPACE, TABLE]))
    for row in _rows_where(rows, pc.invert(known), ["object_id", "object_type"]):
        actual = f"the object type {row['object_type']!r}"
        yield error(ProblemKind.ROW, row["object_id"], actual, "namespace or table", REPAIR)


def missing_specs(survey: Survey, rows: pa.Table) -> set[str]:
    """Return the metadata keys of missing spec versions that have rows below them."""
    spec_rows = rows.filter(
        pc.and_(is_spec_row(rows), pc.greater(pc.count_substring(rows["object_id"], SEPARATOR), 0))
    )
    names = (
        pc.list_element(pc.split_pattern(spec_rows["object_id"], SEPARATOR, max_splits=1), 0)
        .unique()
        .to_pylist()
    )
    known = {spec.name for spec in survey.specs or ()}
    return {f"{KEY_PREFIX}{name[1:]}" for name in names if name not in known}


def _unknown_specs(spec_rows: pa.Table, specs: PartitionSpecs) -> Iterator[Problem]:
    names = pc.list_element(pc.split_pattern(spec_rows["object_id"], SEPARATOR, max_splits=1), 0)
    unknown = pc.invert(pc.is_in(names, pa.array([spec.name for spec in specs])))
    # a row v2 without its spec (yet) does no harm
    below = pc.and_(unknown, pc.greater(pc.count_substring(spec_rows["object_id"], SEPARATOR), 0))
    for row in _rows_where(spec_rows, below, ["object_id"]):
        yield error(
            ProblemKind.NAME,
            row["object_id"],
            "belongs to a spec version that does not exist",
            f"one of {', '.join(spec.name for spec in specs)}",
            f"{REPAIR}, which sets it aside",
        )


def _outside_specs(tables: pa.Table, specs: PartitionSpecs) -> Iterator[Problem]:
    """Report tables that are not below a spec version, but look like members, which nothing reads."""
    names = {*(field.name for field in READ_FIELDS), *(field.column for field in specs.fields.values())}
    resembles_member = pc.match_substring_regex(tables["object_id"], _LIKE_MEMBER)
    for name in names.intersection(tables.column_names):
        resembles_member = pc.or_(resembles_member, tables[name].is_valid())
    for row in _rows_where(tables, pc.and_(resembles_member, pc.invert(is_spec_row(tables))), ["object_id"]):
        yield warning(
            ProblemKind.NAME,
            row["object_id"],
            "looks like a member, but its id is not below a spec version, so queries do not read it",
            f"an id below {' or '.join(spec.name for spec in specs)} for members, and neither partition "
            "values nor a version to read for other tables",
            "If its rows belong to the namespace: append them, and drop the table with DirectoryNamespace",
        )


def _spec_row(spec_rows: pa.Table, spec: PartitionSpec) -> Iterator[Problem]:
    if not pc.any(pc.equal(spec_rows["object_id"], spec.name)).as_py():
        expected = f"a row for the namespace of {spec.key}"
        yield warning(ProblemKind.MISSING, spec.name, "the row is missing", expected, REPAIR)


def _names(below: pa.Table, spec: PartitionSpec) -> Iterator[Problem]:
    depth = len(spec.fields)
    levels = rf"(\${_SEGMENT})"
    good = pc.if_else(
        pc.equal(below["object_type"], TABLE),
        pc.match_substring_regex(below["object_id"], rf"^{spec.name}{levels}{{{depth}}}\${MEMBER_NAME}$"),
        pc.match_substring_regex(below["object_id"], rf"^{spec.name}{levels}{{1,{depth}}}$"),
    )
    levels_of = pc.count_substring(below["object_id"], SEPARATOR)
    is_table = pc.equal(below["object_type"], TABLE)
    fits = pc.if_else(is_table, pc.equal(levels_of, depth + 1), pc.less_equal(levels_of, depth))
    for row in _rows_where(below, pc.and_(pc.invert(good), pc.invert(fits)), ["object_id", "object_type"]):
        yield error(
            ProblemKind.NAME,
            row["object_id"],
            f"a {row['object_type']} at the wrong level",
            f"{spec.name} followed by {depth} names, and {MEMBER_NAME!r} for tables",
            f"{REPAIR}: it gets the name that its folder implies, or is set aside",
        )
    for row in _rows_where(below, pc.and_(pc.invert(good), fits), ["object_id", "object_type"]):
        yield warning(
            ProblemKind.NAME,
            row["object_id"],
            f"a {row['object_type']} with an invalid name",
            f"{spec.name} followed by {depth} names of 16 characters a-z0-9, and {MEMBER_NAME!r} for tables",
            f"{REPAIR}, which sets aside rows with another number of levels than the spec",
        )
    parents = _parents(below["object_id"])
    known = pa.concat_arrays([one_array(below["object_id"]), pa.array([spec.name])])
    lost = pc.invert(pc.is_in(parents, value_set=known))
    for row in _rows_where(below, lost, ["object_id"]):
        expected = "a row for the parent namespace"
        yield error(ProblemKind.ROW, row["object_id"], NO_PARENT, expected, REPAIR)
    is_leaf = pc.and_(
        pc.equal(below["object_type"], NAMESPACE), pc.invert(pc.is_in(below["object_id"], one_array(parents)))
    )
    for row in _rows_where(below, is_leaf, ["object_id"]):
        yield info(
            ProblemKind.ROW,
            row["object_id"],
            "the namespace is empty",
            "at least one table or namespace in it",
            "A dropped partition leaves such a namespace; the next row with its values uses it again",
        )


def _pins(root: Location, tables: pa.Table) -> Iterator[Problem]:
    """Check folders and versions; rows without a version and tables without these columns are valid."""
    for row in _rows_where(tables, pc.is_null(tables["location"]), ["object_id"]):
        expected = "a location; another program added or changed the row"
        yield error(ProblemKind.ROW, row["object_id"], "no location", expected, REPAIR)
    is_invalid = are_invalid(root, tables["location"])
    for row in _rows_where(tables, is_invalid, ["object_id", "location"]):
        actual = f"the location {row['location']!r}, which is not the folder of a table"
        expected = "a folder in the namespace; another program added or changed the row"
        yield error(ProblemKind.ROW, row["object_id"], actual, expected, REPAIR)
    version, branch, tag = (tables[name].is_valid() for name in ("read_version", "read_branch", "read_tag"))
    is_bare_branch = pc.and_(branch, pc.invert(version))
    contradicts = pc.or_(is_bare_branch, pc.and_(tag, pc.or_(version, branch)))
    for row in _rows_where(tables, contradicts, ["object_id"]):
        yield error(
            ProblemKind.ROW,
            row["object_id"],
            "a branch without a version, or a tag together with a version or branch",
            "a version, a version of a branch, or a tag",
            REPAIR,
        )
    for row in _rows_where(tables, _names_nothing(tables), ["object_id"]):
        yield info(
            ProblemKind.UNPUBLISHED,
            row["object_id"],
            UNPUBLISHED,
            "a version; without it, readers use the newest one",
            "The first change of this partition publishes its newest version",
        )


def unproven_ids(survey: Survey, rows: pa.Table) -> list[str]:
    """Return the ids of tables whose rows have neither partition values nor a version, branch or tag.

    Such a table is the partition of NULL, or was created by a program that does not support partitions. Only
    its rows show which.
    """
    ids: list[str] = []
    for spec in survey.specs if survey.specs is not None and survey.has_values else ():
        is_in_spec = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
        tables = rows.filter(pc.and_(is_in_spec, pc.equal(rows["object_type"], TABLE)))
        unproven = _names_nothing(tables)
        for field in spec.fields:
            unproven = pc.and_(unproven, pc.is_null(tables[field.column]))
        ids += tables.filter(unproven)["object_id"].to_pylist()
    return ids


def _names_nothing(tables: pa.Table) -> pa.ChunkedArray:
    version, branch, tag = (tables[field.name].is_null() for field in READ_FIELDS)
    return pc.and_(pc.and_(version, branch), tag)


def _values(below: pa.Table, spec: PartitionSpec, specs: PartitionSpecs) -> Iterator[Problem]:
    """Check that values are those of the namespaces above, and that fields of other specs are NULL."""
    columns = [field.column for field in spec.fields]
    others = [field.column for field in specs.fields.values() if field.column not in columns]
    depth = pc.subtract(pc.count_substring(below["object_id"], SEPARATOR), 1)
    parents = pc.index_in(_parents(below["object_id"]), value_set=one_array(below["object_id"]))
    wrong = np.zeros(len(below), dtype=np.bool_)
    for level, name in enumerate(columns):
        # equal values, including NULL, have equal keys
        keys = row_keys(below, [name])
        inherited = pc.fill_null(pc.greater(depth, level), False)
        differs = pc.fill_null(pc.not_equal(keys, keys.take(one_array(parents))), False)
        above = pc.and_(pc.less(depth, level), below[name].is_valid())
        wrong |= _numpy(pc.or_(pc.and_(inherited, differs), above))
    for name in others:
        wrong |= _numpy(below[name].is_valid())
    for row in _rows_where(below, pa.array(wrong), ["object_id"]):
        yield error(
            ProblemKind.VALUES,
            row["object_id"],
            "partition values that the namespace above it does not have",
            "those of the namespaces above and its own",
            REPAIR,
        )


def _twins(tables: pa.Table, spec: PartitionSpec) -> Iterator[Problem]:
    for names in twin_ids(tables, spec):
        for name in names:
            yield error(
                ProblemKind.DUPLICATE,
                name,
                "another table has the same partition values",
                "one table for each tuple of values",
                f"{REPAIR}: a table whose rows have other values gets these values. Otherwise, for one of "
                f"the tables: {MOVE_ROWS}",
            )


def twin_ids(tables: pa.Table, spec: PartitionSpec) -> list[list[str]]:
    """Return groups of ids of tables of a spec version with the same partition values."""
    keys = row_keys(tables, [field.column for field in spec.fields])
    counts = pc.value_counts(keys)
    twice = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    ids_by_key: dict[bytes, list[str]] = {}
    is_twin = pc.is_in(keys, twice)
    for key, name in zip(
        keys.filter(is_twin).to_pylist(), tables.filter(is_twin)["object_id"].to_pylist(), strict=True
    ):
        ids_by_key.setdefault(key, []).append(name)
    return list(ids_by_key.values())


def _parents(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(ids, pattern=r"\$[^$]*$", replacement="")


def _rows_where(rows: pa.Table, mask: pa.Array | pa.ChunkedArray, columns: list[str]) -> list[dict[str, str]]:
    matches: list[dict[str, str]] = rows.select(columns).filter(pc.fill_null(mask, False)).to_pylist()
    return matches


def _numpy(mask: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return one_array(mask).to_numpy(zero_copy_only=False)
