"""Check a partitioned namespace: the consistency of ``__manifest``, and its tables and folders.

This also works for namespaces that cannot be opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import LanceError
from lance_df.namespace.changes.routing import values_of_rows
from lance_df.namespace.health.check_members import check_members
from lance_df.namespace.health.check_rows import UNPUBLISHED, check_rows
from lance_df.namespace.health.findings import Problem, ProblemKind, VerifyReport, error, sorted_problems
from lance_df.namespace.health.orphans import check_folders
from lance_df.namespace.health.spread import in_threads
from lance_df.namespace.health.survey import open_survey
from lance_df.namespace.spec.partition_spec import PartitionSpec
from lance_df.table.evolution.validate import validate_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.health.survey import Survey
    from lance_df.storage import Location
    from lance_df.table.table import Table


def verify_namespace(
    root: Location, *, deep: bool, version: int | None = None, spread: Spread = in_threads
) -> VerifyReport:
    """Check a namespace without changing it.

    Parameters
    ----------
    deep
        Whether to read all rows of all members and check their partition values.
    spread
        Runs the checks of the members.

    Raises
    ------
    NotFoundError
        There is no partitioned namespace, or no such version.
    CorruptDataError
        ``__manifest`` cannot be read at all.
    """
    survey = open_survey(root, version)
    if survey.lost_base:  # without them, rows and folders cannot be compared
        return VerifyReport(root.uri, survey.table.version, deep, 0, sorted_problems([*survey.problems]))
    rows = survey.rows()
    problems = [*survey.problems, *_counters(survey), *_expressions(survey)]
    # if columns are lost, every row lacks their values; the survey reports that once
    problems += [
        problem for problem in check_rows(survey, rows) if not (survey.lost and problem.found == UNPUBLISHED)
    ]
    number, member_problems = check_members(survey, rows, deep=deep, spread=spread)
    problems += member_problems
    problems += check_folders(survey, rows)
    if deep:
        problems += _damage(survey.table)
    return VerifyReport(root.uri, survey.table.version, deep, number, sorted_problems(problems))


def verify_table(table: Table) -> VerifyReport:
    """Check one table: all files and all rows."""
    problems = sorted_problems(list(_damage(table)))
    return VerifyReport(table.uri, table.version, True, 1, problems)


def _damage(table: Table) -> Iterator[Problem]:
    try:
        validate_table(table)
    except LanceError as err:
        advice = "Restore the file, or an older version"
        yield error(ProblemKind.DAMAGED, table.uri, str(err), "a table that can be read", advice)


def _expressions(survey: Survey) -> Iterator[Problem]:
    """Check that the partition values of rows can be computed, with no rows."""
    if survey.specs is None or survey.schema is None:
        return
    no_rows = pa.RecordBatch.from_pylist([], survey.schema.arrow)
    for field in survey.specs.fields.values():
        try:
            values_of_rows(PartitionSpec(1, (field,)), survey.schema, no_rows)
        except LanceError as err:
            expected = "a deterministic expression of its source columns"
            advice = "Fix the spec in the metadata of __manifest"
            yield error(ProblemKind.METADATA, field.column, str(err), expected, advice)


def _counters(survey: Survey) -> Iterator[Problem]:
    """Check that no field id exceeds the highest assigned one, as it would be assigned again."""
    if survey.specs is None or survey.schema is None:
        return
    highest = survey.schema.max_field_id
    for field in survey.specs.fields.values():
        if max(field.source_ids) > highest:
            actual, expected = (
                f"source ids {list(field.source_ids)}",
                f"ids up to the highest field id, {highest}",
            )
            advice = "Fix the spec in the metadata of __manifest"
            yield error(ProblemKind.METADATA, field.column, actual, expected, advice)
