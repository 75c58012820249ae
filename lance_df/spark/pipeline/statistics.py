"""`build_statistics`: build zone maps for fragments without them, in a table or in all partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lance_df.namespace.changes.advanced import MemberRef, MembersAdvanced
from lance_df.namespace.changes.publish import publish
from lance_df.namespace.member import MEMBER_COMMIT, check_columns, commits_to_member
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.namespace.spec.transforms import TransformKind
from lance_df.records import dataclass
from lance_df.spark.opened import SourceRef, open_source
from lance_df.spark.options import SourceOptions
from lance_df.spark.paths import path_for_driver
from lance_df.spark.pipeline.members import Ref, member_refs, open_ref, pinned
from lance_df.spark.pipeline.tasks import (
    OPENING_BYTES,
    TASK_BYTES,
    check_task_bytes,
    cut_in_order,
    evenly,
    num_workers,
    run_in_tasks,
    shared_out,
)
from lance_df.table.maintenance.zone_map_coverage import collect_zones, missing_zones, with_zones
from lance_df.table.maintenance.zones import ROWS_PER_ZONE

if TYPE_CHECKING:
    import os

    from pyspark.sql import SparkSession

    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.table.maintenance.zone_map_coverage import MissingZones
    from lance_df.table.maintenance.zone_map_files import ZoneMapData
    from lance_df.table.table import Table

# The least number of members that one task checks.
_SEEN_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class StatisticsMetrics:
    """The number of tables that got zone maps, and the number of their fragments with new zone maps."""

    tables: int = 0
    fragments: int = 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The columns to cover: the named ones, or all that can have several values in a partition."""

    columns: tuple[str, ...] | None
    constant: Mapping[str, frozenset[int]]

    def missing(self, ref: Ref, table: Table) -> list[MissingZones]:
        """Return the missing zones; none for small members, whose zone maps would save no time."""
        without: frozenset[int] = frozenset()
        if isinstance(ref, MemberRef) and self.columns is None:
            without = self.constant.get(ref.name.partition("$")[0], without)
            if int(table.fragments.physical_rows.sum()) <= ROWS_PER_ZONE:
                return []
        return missing_zones(table, self.columns, without=without)


@dataclass(frozen=True, slots=True)
class _Uncovered:
    """Fragments that lack zone maps; ``zones`` has their zones that were collected already."""

    ref: Ref
    fragment_ids: tuple[int, ...]
    num_bytes: int
    zones: tuple[Mapping[int, ZoneMapData], ...] = ()


def build_statistics(
    spark: SparkSession,
    root: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    task_bytes: int = TASK_BYTES,
    storage_options: Mapping[str, Any] | None = None,
) -> StatisticsMetrics:
    """Build zone maps for the fragments that have none, such as those with rows that Spark has written.

    Tasks read the columns: many small partitions in one task, a large one in several. One commit makes all
    zone maps visible. If none is missing, there is no new version. A partition that others change meanwhile
    does not change; the next call covers it.

    Parameters
    ----------
    root
        Path of a table or a namespace.
    columns
        Names of columns, ``"a.b"`` for a field of a struct. By default all columns whose values have an
        order, and in a namespace only the partitions that have more than one zone of 8192 rows.
    task_bytes
        Stored bytes of all columns for one task.
    storage_options
        Options for the fsspec filesystem.

    Raises
    ------
    ColumnNotFoundError
        A column does not exist.
    UnsupportedFeatureError
        The values of a column have no order, and so no minimum and maximum.
    ConflictError
        Columns changed meanwhile.
    LanceError
        A task failed. Spark's error is the cause.
    """
    check_task_bytes(task_bytes)
    options = SourceOptions(path=path_for_driver(root), storage=dict(storage_options or {}))
    source = open_source(options)
    names = None if columns is None else tuple(columns)
    namespace = source.namespace
    if namespace is None:
        ref = SourceRef.of(source, options)
        return _of_table(spark, source.committed_table, ref, _Wanted(names, {}), task_bytes)
    constant = {
        spec.name: frozenset(
            field_id
            for field in spec.fields
            if field.transform is not None and field.transform.kind is TransformKind.IDENTITY
            for field_id in field.source_ids
        )
        for spec in namespace.manifest.specs
    }
    return _of_namespace(spark, pinned(namespace), _Wanted(names, constant), task_bytes)


def _of_table(
    spark: SparkSession, table: Table, ref: SourceRef, wanted: _Wanted, task_bytes: int
) -> StatisticsMetrics:
    missing = wanted.missing(ref, table)
    work = _uncovered(ref, table, missing)
    if work is None:
        return StatisticsMetrics()
    [collected] = _collected(spark, [work], wanted, task_bytes)
    covered = with_zones(table, missing, collected.zones)
    return StatisticsMetrics() if covered is table else StatisticsMetrics(1, len(work.fragment_ids))


def _of_namespace(
    spark: SparkSession, snapshot: NamespaceSnapshot, wanted: _Wanted, task_bytes: int
) -> StatisticsMetrics:
    workers, manifest = num_workers(spark), snapshot.manifest
    refs = member_refs(snapshot, np.arange(len(manifest.members)))
    uncovered_of = partial(_uncovered_members, manifest.schema, wanted)
    parts = run_in_tasks(spark, uncovered_of, evenly(refs, workers, _SEEN_AT_ONCE))
    work = [each for part in parts for each in part]
    # several tasks read a large member first
    large = _collected(spark, [each for each in work if each.num_bytes > task_bytes], wanted, task_bytes)
    tasks = shared_out(
        [*large, *(each for each in work if each.num_bytes <= task_bytes)], workers, task_bytes
    )
    made: dict[str, tuple[int, int]] = {}
    for part in run_in_tasks(spark, partial(_cover, wanted), tasks):
        made |= part
    if made:
        publish(snapshot.root, manifest, [MembersAdvanced(made)])
    covered = [each for each in work if isinstance(each.ref, MemberRef) and each.ref.name in made]
    return StatisticsMetrics(len(covered), sum(len(each.fragment_ids) for each in covered))


def _collected(
    spark: SparkSession, work: Sequence[_Uncovered], wanted: _Wanted, task_bytes: int
) -> list[_Uncovered]:
    """Return the uncovered fragments with their zones, which many tasks collect."""
    done = []
    for each in work:
        share = each.num_bytes // len(each.fragment_ids)
        parts = [_Uncovered(each.ref, (fragment_id,), share) for fragment_id in each.fragment_ids]
        tasks = cut_in_order(parts, num_workers(spark), task_bytes)
        zones = run_in_tasks(spark, partial(_collect, wanted), tasks)
        done.append(_Uncovered(each.ref, each.fragment_ids, OPENING_BYTES, tuple(zones)))
    return done


def _uncovered(ref: Ref, table: Table, missing: Sequence[MissingZones]) -> _Uncovered | None:
    ids = sorted({fragment_id for each in missing for fragment_id in each.fragment_ids})
    if not ids:
        return None
    sizes = table.fragments.file_bytes[np.isin(table.fragments.ids, ids)]
    return _Uncovered(ref, tuple(ids), int(sizes.sum()) + OPENING_BYTES)


def _uncovered_members(
    schema: NamespaceSchema, wanted: _Wanted, refs: Sequence[MemberRef]
) -> list[_Uncovered]:
    uncovered = []
    for ref in refs:
        table = open_ref(ref)
        work = _uncovered(ref, table, wanted.missing(ref, table))
        if work is not None:
            check_columns(schema, table)
            uncovered.append(work)
    return uncovered


def _collect(wanted: _Wanted, work: Sequence[_Uncovered]) -> dict[int, ZoneMapData]:
    """Return the zones of some fragments of one table."""
    table = open_ref(work[0].ref)
    ids = [fragment_id for each in work for fragment_id in each.fragment_ids]
    return collect_zones(table, wanted.missing(work[0].ref, table), ids, num_threads=1)


def _cover(wanted: _Wanted, work: Sequence[_Uncovered]) -> dict[str, tuple[int, int]]:
    """Write zone maps; return the published version of each changed member, and the one with zone maps."""
    made = {}
    for each in work:
        if not isinstance(each.ref, MemberRef):
            continue
        table = open_ref(each.ref)
        missing = wanted.missing(each.ref, table)
        zones = each.zones or (collect_zones(table, missing, each.fragment_ids, num_threads=1),)
        if not any(zones):
            continue

        def commit(
            base: Table,
            missing: Sequence[MissingZones] = tuple(missing),
            zones: Sequence[Mapping[int, ZoneMapData]] = zones,
        ) -> Table:
            return with_zones(base, missing, zones, commit_options=MEMBER_COMMIT)

        made[each.ref.name] = each.ref.version, commits_to_member(each.ref.folder, each.ref.version, commit)
    return made
