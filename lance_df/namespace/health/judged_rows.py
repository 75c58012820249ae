"""Find rows of ``__manifest`` that contradict other rows or their own tables, or are incomplete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.check_members import member_rows
from lance_df.namespace.health.check_rows import NO_PARENT, check_rows, row_keys, twin_ids, unproven_ids
from lance_df.namespace.health.examine import read_member
from lance_df.namespace.health.findings import ProblemKind, Severity
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.names import SEPARATOR
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs

_ROW_PROBLEMS: Final = (ProblemKind.ROW, ProblemKind.VALUES, ProblemKind.NAME)


def bad_ids(survey: Survey, rows: pa.Table, *, proven: Container[str] = ()) -> dict[str, set[ProblemKind]]:
    """Return the ids of rows that contradict others or are incomplete, with the kinds of problems.

    Parameters
    ----------
    proven
        Ids of members that are known to be the partition of NULL.
    """
    kinds = {name: {ProblemKind.ROW} for name in unproven_ids(survey, rows) if name not in proven}
    for problem in check_rows(survey, rows):
        # a row that lacks only its namespace is complete; recalling it could restore an outdated version
        if problem.found == NO_PARENT:
            continue
        if problem.severity is Severity.ERROR and problem.kind in _ROW_PROBLEMS:
            kinds.setdefault(problem.subject, set()).add(problem.kind)
    return kinds


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The result of comparing duplicate or missing partition values with the rows of the tables.

    Attributes
    ----------
    proven
        Tables without partition values whose rows are those of the partition of NULL.
    wrong
        Tables whose rows have other values, and the namespaces above them without these values.
    """

    proven: frozenset[str]
    wrong: frozenset[str]


def judged_rows(survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema, rows: pa.Table) -> JudgedRows:
    """Compare rows with duplicate or missing partition values with the tables that they name."""
    unproven = frozenset(unproven_ids(survey, rows))
    twins = {name for spec in specs if survey.has_values for name in _twins(rows, spec)}
    wanted = pa.array(sorted(unproven | twins), pa.string())
    tables = rows.filter(pc.is_in(rows["object_id"], wanted))
    proven, wrong = set(), set()
    for member in member_rows(survey, tables):
        result = read_member(survey.root, specs, schema, member)
        if isinstance(result, str) or member.spec is None:
            continue
        columns = [field.column for field in member.spec.fields]
        row = tables.filter(pc.equal(tables["object_id"], member.object_id))
        values = result[1]
        if values is None or row_keys(row, columns)[0].as_py() == value_keys(values.columns)[0].as_py():
            proven.add(member.object_id)
            continue
        wrong.add(member.object_id)
        levels = member.object_id.split(SEPARATOR)
        for level in range(1, len(columns) + 1):
            name = SEPARATOR.join(levels[: level + 1])
            above = rows.filter(pc.equal(rows["object_id"], name))
            key = value_keys(values.columns[:level])[0].as_py()
            if len(above) and row_keys(above, columns[:level])[0].as_py() != key:
                wrong.add(name)
    return JudgedRows(frozenset(proven) & unproven, frozenset(wrong))


def _twins(rows: pa.Table, spec: PartitionSpec) -> Iterator[str]:
    is_in_spec = pc.starts_with(rows["object_id"], spec.name + SEPARATOR)
    for names in twin_ids(rows.filter(pc.and_(is_in_spec, pc.equal(rows["object_type"], TABLE))), spec):
        yield from names
