"""The rows that ``__manifest`` should have, from what it has: the state of a rebuilding, and how it begins.

Its steps are in `recalled_rows`, `examined_tables`, `added_namespaces` and `set_aside`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.contradictions import sorted_out
from lance_df.namespace.health.findings import ProblemKind
from lance_df.namespace.health.judged_rows import bad_ids, judged_rows
from lance_df.namespace.health.orphans import is_id_of_folder
from lance_df.namespace.health.repair_report import RepairAction, RepairKind
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.names import SEPARATOR, member_of_folder

if TYPE_CHECKING:
    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpecs
    from lance_df.storage import Location


@dataclass(slots=True)
class Rebuild:
    """A rebuilding under way.

    Attributes
    ----------
    columns
        Those that the rows will have.
    good
        Rows that are as they should be.
    open
        Rows below spec versions that are not complete.
    valued
        The ids of open rows with values that fit those of other rows.
    renamed
        The former ids of open rows that got the id of their folder, by the new ids.
    other
        Rows that are not of the partitioned namespace.
    spare
        Rows that have the id of another one, but not its folder.
    misplaced
        Rows that name the folder of another table.
    """

    root: Location
    specs: PartitionSpecs
    schema: NamespaceSchema
    columns: pa.Schema
    good: pa.Table
    open: pa.Table
    other: pa.Table
    spare: pa.Table
    misplaced: pa.Table
    valued: frozenset[str] = frozenset()
    renamed: frozenset[str] = frozenset()
    actions: list[RepairAction] = field(default_factory=list)

    @classmethod
    def of(cls, survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema) -> Rebuild:
        """Sort the rows of a version."""
        rows = survey.rows()
        is_member_row = is_spec_row(rows)
        deduplicated, other = sorted_out(rows.filter(is_member_row)), rows.filter(pc.invert(is_member_row))
        unique_rows = deduplicated.rows
        judged = judged_rows(survey, specs, schema, unique_rows)
        bad = bad_ids(survey, unique_rows, proven=judged.proven)
        for name in judged.wrong:
            bad.setdefault(name, set()).add(ProblemKind.VALUES)
        good = pc.invert(pc.is_in(unique_rows["object_id"], pa.array([*bad], pa.string())))
        if not survey.has_values:
            good = pc.equal(pc.count_substring(unique_rows["object_id"], SEPARATOR), 0)
        fitting = [name for name, kinds in bad.items() if kinds == {ProblemKind.ROW}]
        valued = frozenset(fitting if survey.has_values else ())
        complete = unique_rows.filter(good)
        incomplete, renamed = as_folders_say(unique_rows.filter(pc.invert(good)), complete)
        columns, spare, misplaced = rows.schema, deduplicated.others, deduplicated.misplaced
        rebuild = cls(
            survey.root,
            specs,
            schema,
            columns,
            complete,
            incomplete,
            other,
            spare,
            misplaced,
            valued,
            frozenset(renamed),
        )
        for name, former in renamed.items():
            rebuild.add_action(RepairKind.RENAMED, former, name)
        for name in deduplicated.repeated:
            rebuild.add_action(RepairKind.REPEATED, name, "another row has its id and folder")
        return rebuild

    def rows(self) -> pa.Table:
        """Return all rows but those that are still open."""
        return joined(self.good, self.other)

    def all_rows(self) -> pa.Table:
        """Return all rows."""
        return joined(self.rows(), self.open, self.spare, self.misplaced)

    def add_action(self, kind: RepairKind, subject: str, text: str) -> None:
        """Take note of what was done, for the report."""
        self.actions.append(RepairAction(kind, subject, text))


def as_folders_say(incomplete: pa.Table, complete: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return rows with the ids that the names of their folders give, and the former ids by the new ones.

    Where a row that is as it should be has the id, it stays what it is, as does one with another id that the
    folder may have.
    """
    taken = set(complete["object_id"].to_pylist())
    ids, types = incomplete["object_id"].to_pylist(), incomplete["object_type"].to_pylist()
    renamed: dict[str, str] = {}
    for index, location in enumerate(incomplete["location"].to_pylist()):
        name = None if location is None else member_of_folder(location)
        if location is not None and name is not None and name not in taken:
            if is_id_of_folder(ids[index], location):
                name = ids[index]
            if ids[index] != name:
                renamed[name] = ids[index]
            ids[index], types[index] = name, TABLE
            taken.add(name)
    rows = with_column(incomplete, "object_id", pa.array(ids, pa.string()))
    return with_column(rows, "object_type", pa.array(types, pa.string())), renamed
