"""One version of a partitioned namespace, scanned as one table."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lance_df.cache import CacheKind
from lance_df.errors import InvalidInputError, LanceError
from lance_df.expr.walk import has_unknown
from lance_df.namespace.distinct_members import check_distinct
from lance_df.namespace.joined_members import JoinedMembers
from lance_df.namespace.kind import holds_namespace as holds_namespace
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_table import NamespaceManifest
from lance_df.namespace.member_tables import in_columns_of
from lance_df.namespace.pruning.pruning_report import manifest_query, spec_reports
from lance_df.namespace.pruning.selected_members import SelectedMembers, selected_members
from lance_df.namespace.published import Member, are_pinned, check_published, members_at
from lance_df.namespace.row_counts import rows_of_members
from lance_df.namespace.shared_cache import SharedCache
from lance_df.namespace.spec.namespace_schema import SCHEMA_KEY
from lance_df.records import as_integer
from lance_df.scan.plan import ScanPlan, ScanTask
from lance_df.scan.report import Count, SpecReport, TableReport, merged_reports
from lance_df.scan.request import Promise, ScanRequest
from lance_df.table.metadata.refs import ResolvedRef
from lance_df.table.parallel import map_reads
from lance_df.table.reading.system_columns import SYSTEM_COLUMNS
from lance_df.table.scan.cached_plans import plan_footprint
from lance_df.table.scan.columns import output_of
from lance_df.table.scan.plan import plan_scan
from lance_df.table.scan.table_scan import TableScan
from lance_df.table.table import Table

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Iterator

    import numpy.typing as npt

    from lance_df.cache import Entries
    from lance_df.expr.nodes import Predicate
    from lance_df.namespace.joined_members import Run
    from lance_df.scan.source import Sample
    from lance_df.storage import Location

_log = logging.getLogger("lance_df")

SYSTEM_NAMES: Final = frozenset(SYSTEM_COLUMNS)
# the size of a fragment in a table of many small members
_FRAGMENT_BYTES: Final = 256


class NamespaceSnapshot:
    """The state that a query sees: every member at one version. Safe to share between threads."""

    def __init__(
        self,
        root: Location,
        manifest: NamespaceManifest,
        shared: SharedCache | None = None,
        joined: JoinedMembers | None = None,
        arrow_schema: pa.Schema | None = None,
    ) -> None:
        self.root = root
        self.uri = root.uri
        self.manifest = manifest
        self.version = manifest.version
        self.arrow_schema: pa.Schema = manifest.schema.arrow if arrow_schema is None else arrow_schema
        self.shared = SharedCache(manifest.table) if shared is None else shared
        self.cache = self.shared.entries
        self._joined = JoinedMembers(root, manifest.schema.columns, self.cache) if joined is None else joined
        self._cache_part = self.cache.part()
        plans = self.cache.part(NAMESPACE_LIMITS.current.cached_plans)
        self._plans: Entries[ScanPlan] = plans.entries(CacheKind.PLANS)
        # the versions of tags and newest versions when first resolved, so that a query sees one state
        self._resolved: dict[Hashable, ResolvedRef] = {}
        # row counts of members, by their positions
        self._live_rows: dict[int, int] = {}

    @property
    def num_bytes(self) -> int:
        """The estimated memory of this object without its cache."""
        return self.manifest.footprint.num_bytes

    @classmethod
    def open(cls, root: Location, version: int | None = None) -> NamespaceSnapshot:
        """Open the newest version of a namespace, or an older one.

        Raises
        ------
        NotFoundError
            There is no partitioned namespace.
        """
        return cls(root, NamespaceManifest.open(root, version))

    def latest(self) -> NamespaceSnapshot:
        """Return the newest version: this object, if nothing was committed since."""
        manifest = self.manifest.latest()
        if manifest is self.manifest and not are_pinned(manifest):
            return NamespaceSnapshot(self.root, manifest, self.shared, self._joined, self.arrow_schema)
        return self._read(manifest)

    def latest_for_change(self) -> NamespaceSnapshot:
        """Return the newest version, for a change of this one; see `NamespaceManifest.check_follows`."""
        latest = self.latest()
        if latest.shared is not self.shared:  # versions that share a cache are of one history
            latest.manifest.check_follows(self.manifest)
        return latest

    def checkout(self, version: object) -> NamespaceSnapshot:
        """Return the version with a number.

        Raises
        ------
        InvalidInputError
            The version is not a number; namespaces have no tags or branches.
        VersionNotFoundError
            There is no such version.
        """
        number = as_integer(version)
        if number is None:
            raise InvalidInputError(f"{self.uri}: a version of a namespace must be a number, got {version!r}")
        return self._read(self.manifest.checkout(number))

    def of(self, manifest: NamespaceManifest) -> NamespaceSnapshot:
        """Return a version that changes of this one made; it shares the tables that are already open."""
        if manifest is self.manifest:
            return self
        return self._other(manifest, self.shared.for_commit(manifest.table, base=self.manifest.table))

    def _read(self, manifest: NamespaceManifest) -> NamespaceSnapshot:
        """Return a version that was just read; it shares open tables if it is of the same history."""
        if manifest is self.manifest:
            return self
        return self._other(manifest, self.shared.for_read(manifest.table))

    def _other(self, manifest: NamespaceManifest, shared: SharedCache) -> NamespaceSnapshot:
        can_share = shared is self.shared and manifest.schema == self.manifest.schema
        return NamespaceSnapshot(self.root, manifest, shared, self._joined if can_share else None)

    def latest_version(self) -> int:
        """Return the number of the newest version."""
        return self.manifest.table.latest_version()

    @property
    def is_local(self) -> bool:
        """Whether reads need no requests to a remote store."""
        return self.root.is_local

    @property
    def branch(self) -> None:
        """None: namespaces have no branches."""
        return None

    @property
    def committed_table(self) -> Table:
        """The table that commits go to: ``__manifest``."""
        return self.manifest.table

    def clear_cache(self) -> None:
        """Clear the cache of all versions of the namespace and of its members."""
        self.cache.clear()
        self.manifest.table.clear_cache()

    @property
    def plan_cache(self) -> Entries[Any]:
        """See `lance_df.scan.source.Scannable`."""
        return self._plans

    @property
    def is_partitioned(self) -> bool:
        """True: each member is a partition."""
        return True

    @property
    def namespace(self) -> NamespaceSnapshot:
        """This object."""
        return self

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan over all partitions that may have matching rows; see `lance_df.scan.source.Scannable`.

        Conjuncts that the partition values prove are not evaluated on rows again.
        """
        if _has_unknown(request) or not request.options.cached_plans:
            return self._planned(request)
        try:
            known = self._plans.find(request)
        except TypeError:  # the request contains a list of values, which has no hash
            return self._planned(request)
        if known is not None:
            return known
        plan, limits = self._planned(request), NAMESPACE_LIMITS.current
        if (
            len(plan.tasks) <= limits.many_members
            and sum(task.num_rows for task in plan.tasks) <= limits.cached_plan_rows
        ):
            self._plans.put(request, plan, plan_footprint(plan))
        return plan

    def _planned(self, request: ScanRequest) -> ScanPlan:
        schema = self._schema_of(request)
        selected = self.selected_members(request)
        tables = list(self._tables_of(request, selected))
        requests = [
            dataclasses.replace(request, predicate=left, num_tables=max(1, len(tables)))
            for left in selected.residuals
        ]
        is_small = len(selected.positions) <= NAMESPACE_LIMITS.current.few_members
        plan = Table.plan if is_small and not _has_unknown(request) else plan_scan
        plans = [plan(table, requests[choice]) for table, choice in tables]
        tasks: Sequence[ScanTask] = [task for plan in plans for task in plan.tasks]
        _log.debug(
            "%s version %d: planned a scan of %d of %d partitions in %d tasks: %s",
            self.uri,
            self.version,
            len(selected.positions),
            len(self.manifest.members),
            len(tasks),
            request,
        )
        return ScanPlan(
            schema,
            request.promises(),
            tasks,
            lambda: self._report(
                plans,
                Count(len(selected.positions), len(self.manifest.members)),
                self._specs(request, selected),
            ),
        )

    def _schema_of(self, request: ScanRequest) -> pa.Schema:
        return output_of(self.manifest.schema.columns, request).schema

    def _tables_of(self, request: ScanRequest, selected: SelectedMembers) -> Iterator[tuple[Table, int]]:
        """Yield the tables to scan, with small members joined, and the index of the residual for each."""
        if _is_of_members(request) or not request.options.joined_members:
            yield from zip(self.open_members(selected.positions), selected.choices.tolist(), strict=True)
            return
        for run in self._runs_of(selected):
            for table in run.tables:
                yield table, run.choice

    def _runs_of(self, selected: SelectedMembers) -> Iterable[Run]:
        choices = selected.choices.tolist()
        limits = NAMESPACE_LIMITS.current

        def made() -> list[Run]:
            members = members_at(self.root, self.manifest, selected.positions)
            cached_only = len(members) >= limits.many_members
            runs = self._joined.runs(self.manifest, members, choices, self._opened, cached_only=cached_only)
            return list(runs)

        runs: Entries[list[Run]] = self._cache_part.entries(CacheKind.MEMBERS)
        key = selected.positions.tobytes(), selected.choices.tobytes()
        return runs.get(key, made, _runs_bytes)

    def table_scans(
        self, request: ScanRequest, names: Collection[str | None] | None = None
    ) -> Iterator[TableScan]:
        """Yield the members that a scan reads.

        Parameters
        ----------
        names
            The ids of the members to read; all if None.
        """
        selected = self.selected_members(request)
        ids = self.manifest.members["object_id"].take(pa.array(selected.positions)).to_pylist()
        chosen = [at for at, name in enumerate(ids) if names is None or name in names]
        positions, choices = selected.positions[chosen], selected.choices[chosen].tolist()
        moves = self.manifest.members["read_version"].is_null().to_numpy()[positions].tolist()
        rows = zip(self.open_members(positions), choices, positions.tolist(), chosen, moves, strict=True)
        for table, choice, position, at, is_moving in rows:
            yield TableScan(table, selected.residuals[choice], ids[at], position, is_pinned=not is_moving)

    def count_rows(self) -> int:
        """Return the number of rows, without reading any."""
        positions = np.arange(len(self.manifest.members))
        check_distinct(self.manifest, positions)
        members = members_at(self.root, self.manifest, positions)
        columns = self.manifest.table.manifest.table_metadata[SCHEMA_KEY]
        counts: Entries[int] = self.cache.entries(CacheKind.ROW_COUNTS)
        total, missing, opened = 0, list[Member](), list[Member]()
        for member in members:
            known = counts.find((member.folder.path, member.version, columns))
            if known is None:
                (missing if member.is_main_version else opened).append(member)
            else:
                total += known
        for member, num_rows in zip(missing, rows_of_members(self.manifest, missing), strict=True):
            if num_rows is None:
                opened.append(member)
            else:
                total += counts.put((member.folder.path, member.version, columns), num_rows, 0)
        return total + sum(map_reads(lambda each: self._opened(each).count_rows(), opened, where=self.root))

    def estimated_rows(self, pruning_predicate: Predicate | None) -> int | None:
        """Return the estimated number of rows that a scan with a pruning predicate reads.

        If there are many members, only a few are counted. Local members are opened for this. None if a remote
        member is not open yet, or if a member cannot be opened.
        """
        positions = self.selected_members(ScanRequest(pruning_predicate=pruning_predicate)).positions
        few = min(len(positions), NAMESPACE_LIMITS.current.counted_members)
        if not few:
            return 0
        counted = positions[np.linspace(0, len(positions) - 1, few).astype(np.intp)]
        key = counted.tobytes(), len(positions)
        counts: Entries[int] = self._cache_part.entries(CacheKind.ROW_COUNTS)
        if (total := counts.find(key)) is not None:
            return total
        rows = [None if table is None else table.estimated_rows() for table in self._open_at(counted)]
        known = [count for count in rows if count is not None]
        if len(known) < few:
            return None
        return counts.put(key, sum(known) * len(positions) // few, len(key[0]))

    def _open_at(self, positions: npt.NDArray[np.intp]) -> list[Table | None]:
        """Return the members that are open or local; None for the others."""
        if self.is_local:
            try:
                return [*self.open_members(positions)]
            except LanceError:  # the scan raises the error if it reads that member
                return [None]
        members = members_at(self.root, self.manifest, positions)
        return [self._members.find(self._key(member)) for member in members]

    def sample(self, pruning_predicate: Predicate | None) -> Sample | None:
        """Return a sample of the first member that may have rows that satisfy a pruning predicate.

        None if there is no such member, or if the store is not local.
        """
        if not self.is_local:
            return None
        tables = self.open_members(
            self.selected_members(ScanRequest(pruning_predicate=pruning_predicate)).positions[:1]
        )
        return tables[0].sample() if tables else None

    def selected_members(self, request: ScanRequest) -> SelectedMembers:
        """Return the members that may have matching rows, with their residual predicates."""
        return selected_members(
            self.manifest,
            request.predicate,
            request.pruning_predicate,
            proves_conjuncts=request.options.proven_conjuncts,
        )

    def open_members(self, positions: npt.NDArray[np.intp]) -> list[Table]:
        """Return the tables of the members at some positions of ``manifest.members``."""
        return map_reads(self._opened, members_at(self.root, self.manifest, positions), where=self.root)

    @property
    def _members(self) -> Entries[Table]:
        return self.cache.entries(CacheKind.MEMBERS)

    def _opened(self, member: Member) -> Table:
        key = self._key(member)
        if member.is_pinned:
            return self._members.get(key, lambda: self._open_published(member), attrgetter("num_bytes"))
        members: Entries[Table] = self._cache_part.entries(CacheKind.MEMBERS)
        ref = self._resolved.get(key)
        if ref is None:
            table = self._open(member)
            here = ResolvedRef(table.branch, table.version)
            # if several threads arrive at once, the first one decides
            ref = self._resolved.setdefault(key, here)
            if ref == here:
                return members.put((key, ref), table, table.num_bytes)
        pinned = dataclasses.replace(member, version=ref.version, branch=ref.branch, tag=None)
        return members.get((key, ref), lambda: self._open(pinned), attrgetter("num_bytes"))

    def _key(self, member: Member) -> Hashable:
        columns = self.manifest.table.manifest.table_metadata[SCHEMA_KEY]
        return member.folder.path, member.version, member.branch, member.tag, columns

    def _open_published(self, member: Member) -> Table:
        table = self._open(member)
        check_published(self.manifest, table.manifest_file.path, table.manifest.timestamp_ns)
        return table

    def _open(self, member: Member) -> Table:
        return in_columns_of(self.manifest.schema, member.open(self.cache.part()))

    def _specs(self, request: ScanRequest, selected: SelectedMembers) -> tuple[SpecReport, ...]:
        return spec_reports(self.manifest, request.predicate, request.pruning_predicate, selected)

    def _report(
        self, plans: Sequence[ScanPlan], partitions: Count, specs: Sequence[SpecReport]
    ) -> TableReport:
        return dataclasses.replace(
            merged_reports(self.uri, self.version, [plan.report for plan in plans]),
            partitions=partitions,
            specs=tuple(specs),
            manifest_query=manifest_query(specs) if specs else None,
            cache=self.cache.statistics(),
        )


def _is_of_members(request: ScanRequest) -> bool:
    """Whether a scan refers to fragments, row ids or addresses, which belong to the members' own tables."""
    wants_addresses = request.with_row_id or request.with_row_address
    per_fragment = request.fragment_ids is not None or Promise.PER_FRAGMENT in request.requires
    return wants_addresses or per_fragment or not SYSTEM_NAMES.isdisjoint(request.columns or ())


def _runs_bytes(runs: Sequence[Run]) -> int:
    tables = (table for run in runs for table in run.tables)
    return sum(table.num_bytes + _FRAGMENT_BYTES * len(table.fragments) for table in tables)


def _has_unknown(request: ScanRequest) -> bool:
    """Whether equal requests may differ: an `Unknown` may distinguish the literals -0.0 and 0.0."""
    return request.pruning_predicate is not None and has_unknown(request.pruning_predicate)
