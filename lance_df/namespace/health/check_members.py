"""Check each member table against ``__manifest``: its schema, its version and its rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError, LanceError, NotFoundError, VersionNotFoundError
from lance_df.namespace.changes.stored_values import values_of_table
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.health.check_rows import MOVE_ROWS, row_keys, unproven_ids
from lance_df.namespace.health.findings import REPAIR, Problem, ProblemKind, error, info, warning
from lance_df.namespace.health.spread import in_threads
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.member_tables import in_columns_of, open_member
from lance_df.namespace.names import SEPARATOR
from lance_df.records import dataclass
from lance_df.table.evolution.validate import validate_files, validate_table
from lance_df.table.maintenance.cleanup import explain_cleanup
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy
from lance_df.table.metadata.refs import resolve
from lance_df.table.shared import Shared
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from lance_df.format.schema import Field
    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location
    from lance_df.table.table import Table

_OF_BRANCH: Final = (
    "the fields of the namespace; they are read by their ids",
    "Column changes do not apply to branches; publish a version of main to have them",
)
_NO_VERSION: Final = CleanupPolicy(versions=frozenset({2**62}))


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A row of ``__manifest``, with the key of its partition values, or None if they cannot be computed.

    ``is_unproven`` means that the row has neither partition values nor a version to read; see `unproven_ids`.
    """

    object_id: str
    location: str | None
    read_version: int | None
    read_branch: str | None
    read_tag: str | None
    key: bytes | None
    spec: PartitionSpec | None
    is_unproven: bool = False

    @property
    def names_version(self) -> bool:
        """Whether the row names a version or a tag to read."""
        return self.read_version is not None or self.read_tag is not None

    @property
    def named(self) -> str:
        """A description of the version or tag to read."""
        if self.read_tag is not None:
            return f"tag {self.read_tag!r}"
        branch = "" if self.read_branch is None else f" of branch {self.read_branch!r}"
        return f"{self.read_version}{branch}"

    def open_version(self, root: Location) -> Table:
        """Open the version of main that the row names.

        Raises
        ------
        NotFoundError
            The row names no version, or there is no such table or version.
        """
        if self.location is None or self.read_version is None:
            raise NotFoundError(f"{root.uri}: the row of {self.object_id} has no version of a table")
        return open_member(folder_at(root, self.location), self.read_version)


def check_members(
    survey: Survey, rows: pa.Table, *, deep: bool, spread: Spread = in_threads
) -> tuple[int, list[Problem]]:
    """Return the number of member tables, and their problems.

    Parameters
    ----------
    deep
        Whether to read all rows and files, and to compute the partition values of the rows.
    """
    members = member_rows(survey, rows)
    results = spread(_MemberCheck(survey.root, survey.schema, deep), members)
    return len(members), [problem for problems in results for problem in problems]


def member_rows(survey: Survey, rows: pa.Table) -> list[MemberRow]:
    """Return the rows of member tables."""
    tables = rows.filter(pc.and_(pc.equal(rows["object_type"], TABLE), is_spec_row(rows)))
    specs = {spec.name: spec for spec in survey.specs or ()}
    keys: list[bytes | None] = [None] * len(tables)
    owners = [str(name).split(SEPARATOR, 1)[0] for name in tables["object_id"].to_pylist()]
    for name, spec in specs.items() if survey.is_whole else ():
        columns = [] if survey.schema is None else derived_columns(spec, survey.schema)
        if not columns:
            continue
        indices = np.flatnonzero([owner == name for owner in owners])
        of_spec = row_keys(tables.take(indices), columns).to_pylist()
        for index, key in zip(indices.tolist(), of_spec, strict=True):
            keys[index] = key
    names = ["object_id", "location", "read_version", "read_branch", "read_tag"]
    fields = tables.select(names).to_pylist()
    unproven = frozenset(unproven_ids(survey, tables))
    return [
        MemberRow(**row, key=key, spec=specs.get(owner), is_unproven=row["object_id"] in unproven)
        for row, key, owner in zip(fields, keys, owners, strict=True)
    ]


def derived_columns(spec: PartitionSpec, schema: NamespaceSchema) -> list[str]:
    """Return the partition columns whose source columns exist; the others are NULL in every row."""
    return [
        field.column
        for field in spec.fields
        if all(schema.path(field_id) is not None for field_id in field.source_ids)
    ]


def pinned_table(folder: Location, member: MemberRow) -> Table:
    """Open a member as readers do: at its tag, at its version and branch, or at the newest version."""
    if member.read_tag is not None:
        return open_ref(Shared(folder), resolve(folder, member.read_tag, branch=None))
    return open_member(folder, member.read_version, member.read_branch)


def differing_values(
    table: Table, spec: PartitionSpec, schema: NamespaceSchema, key: bytes
) -> tuple[int, pa.RecordBatch | None]:
    """Return how many rows have partition values that differ from a key, and the values of one of them.

    Parameters
    ----------
    key
        The key of the values in `derived_columns`.
    """
    count, example = 0, None
    columns = derived_columns(spec, schema)
    expected = pa.scalar(key, pa.large_binary())
    for values in values_of_table(table, spec, schema):
        wrong = pc.not_equal(value_keys(values.select(columns).columns), expected)
        number = pc.sum(wrong).as_py() or 0
        if number and example is None:
            example = values.filter(wrong).slice(0, 1)
        count += number
    return count, example


def differing_fields(schema: NamespaceSchema, table: Table) -> Iterator[str]:
    """Yield the differences between the fields of a table and those of the namespace."""
    wanted, actual = ({field.id: field for field in each.walk()} for each in (schema.columns, table.schema))
    for number, field in wanted.items():
        if number not in actual:
            yield f"field {number} ({field.name!r}) is missing"
        elif _described(actual[number]) != _described(field):
            yield f"field {number} is {_described(actual[number])}, not {_described(field)}"
    for number in actual.keys() - wanted.keys():
        yield f"field {number} ({actual[number].name!r}) does not exist in the namespace"


def _described(field: Field) -> tuple[str, str, bool]:
    return field.name, field.logical_type, field.nullable


@dataclass(frozen=True, slots=True)
class _MemberCheck:
    """The check of one member of a namespace."""

    root: Location
    schema: NamespaceSchema | None
    deep: bool

    def __call__(self, member: MemberRow) -> list[Problem]:
        return list(_checked(self, member))


def _checked(check: _MemberCheck, member: MemberRow) -> Iterator[Problem]:
    if member.location is None:
        return  # `check_rows` reports it
    name = member.object_id
    try:
        folder = folder_at(check.root, member.location)
    except CorruptDataError:
        return  # `check_rows` reports it
    try:
        table = pinned_table(folder, member)
    except VersionNotFoundError as err:
        yield error(
            ProblemKind.VERSION,
            name,
            str(err),
            "a version that exists",
            "If it cannot be restored: repair(root, publish_newer=True)",
        )
        return
    except NotFoundError as err:
        advice = "Restore the folder; or, if it was dropped on purpose, repair(root, forget_missing=True)"
        yield error(ProblemKind.MISSING, name, str(err), "a Lance table", advice)
        return
    except LanceError as err:
        yield error(ProblemKind.DAMAGED, name, str(err), "a Lance table", "Restore the file")
        return
    yield from _unpublished(member, table)
    if check.schema is not None:
        seen = _in_columns_of(check.schema, table)
        for difference in differing_fields(check.schema, table):
            if table.branch is not None and seen is not None:
                yield info(ProblemKind.SCHEMA, name, difference, *_OF_BRANCH)
                continue
            yield error(
                ProblemKind.SCHEMA,
                name,
                difference,
                "the fields of the namespace, with their ids",
                f"Change the table back, then {REPAIR}(root, publish_newer=True)",
            )
        table = seen or table
    if check.deep:
        yield from _read_through(check.schema, member, table)
        return
    try:
        validate_files(table)
    except LanceError as err:
        yield _damaged(name, err)
        return
    if member.is_unproven:
        yield from _check_values(check.schema, member, table)


def _in_columns_of(schema: NamespaceSchema, table: Table) -> Table | None:
    """Return a table with the columns of the namespace by field id, or None if it has other columns."""
    try:
        return in_columns_of(schema, table)
    except CorruptDataError:
        return None


def _unpublished(member: MemberRow, table: Table) -> Iterator[Problem]:
    newest = table.latest_version()
    if member.read_version is None or newest == member.read_version:
        return
    yield warning(
        ProblemKind.UNPUBLISHED,
        member.object_id,
        f"the newest version of the table is {newest}",
        f"version {member.read_version}, which the namespace reads",
        "A writer is running or has died, or another program wrote to the table. The next write to this "
        "partition reverts it; repair(root, publish_newer=True) publishes it",
    )


def _read_through(schema: NamespaceSchema | None, member: MemberRow, table: Table) -> Iterator[Problem]:
    name = member.object_id
    try:
        validate_table(table)
        left = explain_cleanup(table, _NO_VERSION, max_files=1)
    except LanceError as err:
        yield _damaged(name, err)
        return
    if left.candidate_files:
        yield info(
            ProblemKind.ORPHAN,
            name,
            f"{left.stats.bytes_removed:,} bytes of old files that no version needs",
            "only files that a version needs",
            "Clean up the table",
        )
    yield from _check_values(schema, member, table)


def _damaged(name: str, err: LanceError) -> Problem:
    return error(ProblemKind.DAMAGED, name, str(err), "a table that can be read", "Restore the file")


def _check_values(schema: NamespaceSchema | None, member: MemberRow, table: Table) -> Iterator[Problem]:
    """Compare the partition values of all rows with those of the member."""
    name = member.object_id
    if member.spec is None or member.key is None or schema is None:
        return
    try:
        count, example = differing_values(table, member.spec, schema, member.key)
    except LanceError as err:
        yield error(ProblemKind.VALUES, name, str(err), "partition values can be computed", "Fix the spec")
        return
    if example is not None and member.is_unproven:
        yield error(
            ProblemKind.ROW,
            name,
            "neither a version to read nor partition values, although its rows have values: "
            f"{_text(example)}",
            "a version or partition values, unless it is the partition of NULL; another program added or "
            "changed the row",
            f"{REPAIR}, which checks the rows. Until then every query reads this table",
        )
    elif example is not None:
        yield error(
            ProblemKind.VALUES,
            name,
            f"{count:,} of {table.count_rows():,} rows have other partition values, such as {_text(example)}",
            "only rows of this partition; queries would miss the others",
            f"For these rows: {MOVE_ROWS}",
        )


def _text(values: pa.RecordBatch) -> str:
    return ", ".join(
        f"{name} {' '.join(column.to_string().split())[1:-1].strip()}"
        for name, column in zip(values.schema.names, values.columns, strict=True)
    )
