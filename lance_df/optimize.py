"""Compaction in separate steps, with the names of pylance: plan, execute anywhere, commit once.

To compact a table in one call, use ``dataset.optimize.compact_files()``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from lance_df.errors import InvalidInputError
from lance_df.format.operations import RewriteGroup
from lance_df.fragment import FragmentMetadata
from lance_df.interrupts import interrupted_once
from lance_df.records import dataclass
from lance_df.table.maintenance.compaction import commit_rewrites, compact, rewrite, with_extended_indices
from lance_df.table.maintenance.compaction_options import CompactionOptions, compaction_options
from lance_df.table.maintenance.compaction_plan import plan_compaction

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionOptions",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
]


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """How many fragments and files a compaction removed and added. Deletion files count as files."""

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def _of(cls, groups: Iterable[RewriteGroup]) -> Self:
        old = [fragment for group in groups for fragment in group.old_fragments]
        new = [fragment for group in groups for fragment in group.new_fragments]
        return cls(
            fragments_removed=len(old),
            fragments_added=len(new),
            files_removed=sum(len(each.files) + (each.deletion_file is not None) for each in old),
            files_added=sum(len(each.files) for each in new),
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """New data files with the rows of some fragments, not committed yet. Instances can be pickled."""

    metrics: CompactionMetrics
    new_fragments: list[FragmentMetadata]
    read_version: int
    original_fragments: list[FragmentMetadata]

    def __repr__(self) -> str:
        return (
            f"RewriteResult(read_version={self.read_version}, new_fragments={self.new_fragments}, "
            f"old_fragments={self.original_fragments})"
        )

    def json(self) -> str:
        """Return the result as text for `from_json`."""
        return json.dumps(
            {
                "metrics": dataclasses.asdict(self.metrics),
                "new_fragments": _to_json(self.new_fragments),
                "read_version": self.read_version,
                "original_fragments": _to_json(self.original_fragments),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `json` returned.

        Raises
        ------
        InvalidInputError
            The text is not one that `json` returns.
        """
        values = _parsed(text, "metrics", "new_fragments", "read_version", "original_fragments")
        return cls(
            CompactionMetrics(**values["metrics"]),
            _from_json(values["new_fragments"]),
            values["read_version"],
            _from_json(values["original_fragments"]),
        )


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Neighbouring fragments that are to be rewritten. Instances can be pickled."""

    fragments: list[FragmentMetadata]
    read_version: int
    options: CompactionOptions = dataclasses.field(repr=False)

    def execute(self, dataset: LanceDataset) -> RewriteResult:
        """Write the new data files without committing them.

        Parameters
        ----------
        dataset
            Any version of the table. The rows are read from ``read_version``.
        """
        table = dataset._table
        if table.version != self.read_version:
            table = table.checkout((table.branch, self.read_version))
        group = rewrite(table, [fragment.id for fragment in self.fragments], self.options)
        return RewriteResult(
            CompactionMetrics._of([group]),
            [FragmentMetadata._of(fragment) for fragment in group.new_fragments],
            self.read_version,
            self.fragments,
        )

    def json(self) -> str:
        """Return the task as text for `from_json`."""
        return json.dumps(self._to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `json` returned.

        Raises
        ------
        InvalidInputError
            The text is not one that `json` returns.
        """
        values = _parsed(text, "task", "read_version", "options")
        return cls(
            _from_json(values["task"]["fragments"]),
            values["read_version"],
            _options_from_json(values["options"]),
        )

    def _to_dict(self) -> dict[str, Any]:
        return {
            "task": {"fragments": _to_json(self.fragments)},
            "read_version": self.read_version,
            "options": dataclasses.asdict(self.options),
        }


@dataclass(frozen=True, slots=True, repr=False)
class CompactionPlan:
    """The tasks of a compaction. Instances can be pickled.

    The tasks may run anywhere and in any order. The results of only some of them may be committed.
    """

    read_version: int
    tasks: list[CompactionTask]
    options: CompactionOptions

    def __repr__(self) -> str:
        return (
            f"CompactionPlan(read_version={self.read_version}, tasks=<{self.num_tasks()} compaction tasks>)"
        )

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return the plan as text for `from_json`."""
        return json.dumps(
            {
                "tasks": [task._to_dict()["task"] for task in self.tasks],
                "read_version": self.read_version,
                "options": dataclasses.asdict(self.options),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text that `json` returned.

        Raises
        ------
        InvalidInputError
            The text is not one that `json` returns.
        """
        values = _parsed(text, "tasks", "read_version", "options")
        version, options = values["read_version"], _options_from_json(values["options"])
        tasks = [CompactionTask(_from_json(task["fragments"]), version, options) for task in values["tasks"]]
        return cls(version, tasks, options)


class Compaction:
    """The steps of a compaction. ``options`` is a dict of `CompactionOptions` by name."""

    @staticmethod
    def execute(dataset: LanceDataset, options: Mapping[str, Any] | None = None) -> CompactionMetrics:
        """Compact a table, and move the dataset to the new version.

        Raises
        ------
        RetryableConflictError
            Other writers changed rows of the fragments in the meantime. Nothing is left behind.
        """
        with interrupted_once():
            table, groups = compact(dataset._table, compaction_options(dataset._table, options or {}))
            if groups:
                dataset._follow(table)
        return CompactionMetrics._of(groups)

    @staticmethod
    def plan(dataset: LanceDataset, options: Mapping[str, Any] | None = None) -> CompactionPlan:
        """Return the plan of a compaction."""
        table = dataset._table
        resolved = compaction_options(table, options or {})
        tasks = [
            CompactionTask(
                [FragmentMetadata._of(table.fragment(fragment_id)) for fragment_id in fragment_ids],
                table.version,
                resolved,
            )
            for fragment_ids in plan_compaction(table, resolved)
        ]
        return CompactionPlan(table.version, tasks, resolved)

    @staticmethod
    def commit(
        dataset: LanceDataset,
        rewrites: Sequence[RewriteResult],
        options: Mapping[str, Any] | None = None,
    ) -> CompactionMetrics:
        """Replace the old fragments by the new ones, and move the dataset to the new version.

        Parameters
        ----------
        rewrites
            Results of tasks whose plans belong to one version of the table.
        options
            Accepted for compatibility with pylance; it has no effect.

        Raises
        ------
        InvalidInputError
            The results belong to several versions, or replace a fragment twice.
        RetryableConflictError
            Other writers changed rows of the fragments in the meantime. The files of the rewrites remain.
        """
        compaction_options(dataset._table, options or {})
        if not rewrites:
            return CompactionMetrics()
        versions = {result.read_version for result in rewrites}
        if len(versions) > 1:
            raise InvalidInputError(
                f"the rewrites must be planned at the same version, got versions {sorted(versions)}"
            )
        table = dataset._table.checkout((dataset._table.branch, versions.pop()))
        groups = [
            RewriteGroup(
                tuple(table.fragment(fragment.id) for fragment in result.original_fragments),
                tuple(fragment._to_format() for fragment in result.new_fragments),
            )
            for result in rewrites
        ]
        with interrupted_once():
            compacted = commit_rewrites(table, groups)
            dataset._follow(with_extended_indices(table, compacted, groups))
        return CompactionMetrics._of(groups)


def _to_json(fragments: Iterable[FragmentMetadata]) -> list[dict[str, Any]]:
    return [fragment.to_json() for fragment in fragments]


def _from_json(fragments: Iterable[Any]) -> list[FragmentMetadata]:
    return [FragmentMetadata.from_json(json.dumps(fragment)) for fragment in fragments]


def _options_from_json(values: Mapping[str, Any]) -> CompactionOptions:
    try:
        return CompactionOptions(
            **{**values, "excluded_fragment_ids": tuple(values["excluded_fragment_ids"])}
        )
    except (KeyError, TypeError) as err:
        raise InvalidInputError("the options are not options of a compaction") from err


def _parsed(text: str, *names: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
        return {name: values[name] for name in names}
    except (KeyError, TypeError, ValueError) as err:
        raise InvalidInputError(f"not a text returned by json(): {text!r:.80}") from err
