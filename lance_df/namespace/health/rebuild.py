"""The state of rebuilding the rows of ``__manifest``, and its first step.

The other steps are in `recalled_rows`, `examined_tables`, `added_namespaces` and `set_aside`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.namespace.health.contradictions import sorted_out
from lance_df.namespace.health.findings import ProblemKind
from lance_df.namespace.health.judged_rows import bad_ids, judged_rows
from lance_df.namespace.health.namespace_values import ids_above, with_namespace_values
from lance_df.namespace.health.orphans import is_id_of_folder
from lance_df.namespace.health.repair_report import RepairAction, RepairKind
from lance_df.namespace.health.row_tables import joined, with_column
from lance_df.namespace.health.spread import in_threads
from lance_df.namespace.health.survey import is_spec_row
from lance_df.namespace.manifest_table import TABLE
from lance_df.namespace.names import SEPARATOR, member_of_folder

if TYPE_CHECKING:
    from lance_df.namespace.health.spread import Spread
    from lance_df.namespace.health.survey import Survey
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.namespace.spec.partition_spec import PartitionSpecs
    from lance_df.storage import Location


@dataclass(slots=True)
class Rebuild:
    """The state of rebuilding the rows of ``__manifest``.

    Attributes
    ----------
    columns
        The columns of the rebuilt rows.
    good
        Correct rows.
    open
        Incomplete rows below spec versions.
    valued
        The ids of open rows with partition values that are consistent with other rows.
    renamed
        The new ids of open rows that got the id of their folder.
    other
        Rows that do not belong to the partitioned namespace.
    spare
        Rows with the id of another row but another folder.
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
    def of(
        cls, survey: Survey, specs: PartitionSpecs, schema: NamespaceSchema, spread: Spread = in_threads
    ) -> Rebuild:
        """Classify the rows of a version."""
        rows = survey.rows()
        is_member_row = is_spec_row(rows)
        deduplicated, other = sorted_out(rows.filter(is_member_row)), rows.filter(pc.invert(is_member_row))
        unique_rows, corrected = with_namespace_values(survey, specs, schema, deduplicated.rows, spread)
        judged = judged_rows(survey, specs, schema, unique_rows)
        bad = bad_ids(survey, unique_rows, proven=judged.proven)
        for name in judged.wrong:
            bad.setdefault(name, set()).add(ProblemKind.VALUES)
        # members below agree with the namespace that they are in, but not with those above it
        wrong = pa.array([name for name, kinds in bad.items() if ProblemKind.VALUES in kinds], pa.string())
        ids = unique_rows["object_id"]
        for level in range(1, 1 + max(len(spec.fields) for spec in specs)) if len(wrong) else ():
            for name in ids.filter(pc.is_in(ids_above(ids, level), wrong)).to_pylist():
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
        for name in corrected:
            rebuild.add_action(RepairKind.CORRECTED, name, "to the values of the rows in its tables")
        for name, former in renamed.items():
            rebuild.add_action(RepairKind.RENAMED, former, name)
        for name in deduplicated.repeated:
            rebuild.add_action(RepairKind.REPEATED, name, "another row has the same id and folder")
        return rebuild

    def rows(self) -> pa.Table:
        """Return the correct rows and the other rows, without open ones."""
        return joined(self.good, self.other)

    def all_rows(self) -> pa.Table:
        """Return all rows."""
        return joined(self.rows(), self.open, self.spare, self.misplaced)

    def add_action(self, kind: RepairKind, subject: str, text: str) -> None:
        """Record an action for the report."""
        self.actions.append(RepairAction(kind, subject, text))


def as_folders_say(incomplete: pa.Table, complete: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return rows with the ids that follow from their folder names, and the former ids by new id.

    A row keeps its id if a correct row has the new id, or if its id is another possible id of the folder.
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
