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
from lance_df.namespace.health.folder_ids import as_folders_say
from lance_df.namespace.health.judged_rows import bad_ids, judged_rows
from lance_df.namespace.health.repair_report import RepairAction, RepairKind
from lance_df.namespace.health.row_tables import joined
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.names import SEPARATOR

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
        The ids of open rows that were told by their folders.
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
        is_own = is_spec_row(rows)
        found, other = sorted_out(rows.filter(is_own)), rows.filter(pc.invert(is_own))
        own = found.kept
        judged = judged_rows(survey, specs, schema, own)
        bad = bad_ids(survey, own, proven=judged.proven)
        for name in judged.wrong:
            bad.setdefault(name, set()).add(ProblemKind.VALUES)
        good = pc.invert(pc.is_in(own["object_id"], pa.array([*bad], pa.string())))
        if not survey.has_values:
            good = pc.equal(pc.count_substring(own["object_id"], SEPARATOR), 0)
        fitting = [name for name, kinds in bad.items() if kinds == {ProblemKind.ROW}]
        valued = frozenset(fitting if survey.has_values else ())
        complete = own.filter(good)
        incomplete, renamed = as_folders_say(own.filter(pc.invert(good)), complete)
        columns, spare, misplaced = rows.schema, found.others, found.misplaced
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
        for name in found.repeated:
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
