"""Find the tables and namespaces of partitions by their values, and create rows for new ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import CorruptDataError
from lance_df.namespace.directory.names import location_of
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import NAMESPACE, TABLE
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR, RandomNames
from lance_df.namespace.pruning.spec_members import members_by_spec
from lance_df.namespace.published import Member as Member
from lance_df.namespace.published import members_at
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.namespace.changes.partition_files import WrittenPartition
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.names import Names
    from lance_df.namespace.spec.partition_spec import PartitionSpec
    from lance_df.storage import Location

_KEY: Final = pa.large_binary()
# How many partition values are concatenated at once: single rows need much more memory than a table.
_AT_ONCE: Final = 4096


@dataclass(frozen=True, slots=True)
class PartitionLocation:
    """The location of a partition's table.

    Attributes
    ----------
    path
        The last part of the name of each namespace above the table.
    is_new
        Whether the folder was named for unpublished rows, so that no version of the namespace has it.
    """

    folder: Location
    path: tuple[str, ...]
    is_new: bool = False


class PartitionIndex:
    """The partitions of one spec version, in one version of a namespace.

    Parameters
    ----------
    names
        Generates names for new partitions; random names by default.
    """

    def __init__(
        self,
        root: Location,
        manifest: NamespaceManifest,
        spec: PartitionSpec,
        *,
        names: Names | None = None,
    ) -> None:
        self._names = names or RandomNames()
        self._root = root
        self._manifest = manifest
        self._spec = spec
        self._known = known_partitions(manifest, spec)
        self._columns = [field.column for field in spec.fields]
        self._levels = range(1, len(self._columns) + 1)
        self._new_locations: dict[bytes, PartitionLocation] = {}
        self._new_segments: list[dict[bytes, str]] = [{} for _ in self._levels]

    def locate(self, values: pa.RecordBatch) -> list[PartitionLocation]:
        """Return the locations of the tables of partitions; one without a table gets a new, lasting location.

        Parameters
        ----------
        values
            Distinct partition values, one row for each partition.
        """
        keys = value_keys(values.columns)
        members = self._members(self._known.members(keys))
        new = np.flatnonzero([member is None for member in members])
        locations = iter(self._new(keys.take(pa.array(new)), values.take(pa.array(new))))
        return [next(locations) if member is None else _location_of(member) for member in members]

    def find(self, partitions: Sequence[WrittenPartition]) -> list[Member | None]:
        """Return the member of each partition, or None if it has none."""
        keys = pa.array([partition.key for partition in partitions], _KEY)
        return self._members(self._known.members(keys))

    def rows_of(self, fresh: Sequence[tuple[WrittenPartition, int]]) -> pa.Table:
        """Return the rows of ``__manifest`` for new partitions and the versions of their tables.

        The rows are a namespace for each level of the spec that does not exist yet, and the table below the
        last level.
        """
        if not fresh:
            return self._manifest.table.arrow_schema.empty_table()
        values = pa.concat_tables(
            pa.Table.from_batches([partition.values for partition, _ in some]).combine_chunks()
            for some in (fresh[start : start + _AT_ONCE] for start in range(0, len(fresh), _AT_ONCE))
        ).combine_chunks()
        columns = [values[name].chunk(0) for name in self._columns]
        parents = pa.array([self._spec.name] * len(fresh), pa.string())
        rows = []
        for level in self._levels:
            segments = pa.array([partition.location.path[level - 1] for partition, _ in fresh], pa.string())
            keys = value_keys(columns[:level])
            known = self._known.namespaces(level, keys)
            first, of_first = _distinct(keys)
            names = pc.coalesce(known, pc.binary_join_element_wise(parents, segments, SEPARATOR))
            is_new = pc.is_null(known).take(first)
            new, parents = first.filter(is_new), names.take(first).take(of_first)
            rows.append(
                self._rows(NAMESPACE, parents.take(new), [each.take(new) for each in columns[:level]])
            )
        names = pc.binary_join_element_wise(parents, MEMBER_NAME, SEPARATOR)
        folders = (partition.location.folder for partition, _ in fresh)
        locations = pa.array([location_of(self._root, folder) for folder in folders], pa.string())
        versions = pa.array([version for _, version in fresh], pa.uint64())
        self._check_absent(names)
        rows.append(self._rows(TABLE, names, columns, location=locations, read_version=versions))
        return pa.concat_tables(rows)

    def _check_absent(self, names: pa.Array) -> None:
        """Check that no table of a new partition exists.

        Raises
        ------
        CorruptDataError
            A row has the id of a table, so that its values or its type are wrong.
        """
        known = names.filter(pc.is_in(names, value_set=one_array(self._manifest.rows["object_id"])))
        if len(known):
            raise CorruptDataError(
                f"{self._manifest.table.uri}: {known[0].as_py()} exists already, but its row has another "
                "type or other partition values; repair the namespace"
            )

    def _rows(
        self, object_type: str, names: pa.Array, values: Sequence[pa.Array], **columns: pa.Array
    ) -> pa.Table:
        """Return rows with the partition values of their level and the levels above."""
        given = {
            "object_id": names,
            "object_type": pa.repeat(object_type, len(names)),
            "metadata": pa.repeat("{}", len(names)),
            **dict(zip(self._columns, values, strict=False)),
            **columns,
        }
        schema = self._manifest.table.arrow_schema
        return pa.table([given.get(field.name, pa.nulls(len(names), field.type)) for field in schema], schema)

    def _members(self, positions: npt.NDArray[np.intp]) -> list[Member | None]:
        """Return the members at some positions, None for -1."""
        members = iter(members_at(self._root, self._manifest, positions[positions >= 0]))
        return [None if position < 0 else next(members) for position in positions.tolist()]

    def _new(self, keys: pa.Array, values: pa.RecordBatch) -> list[PartitionLocation]:
        """Return the locations of partitions that have no table."""
        paths = zip(*(self._segments(level, values) for level in self._levels), strict=True)
        locations = []
        for key, path in zip(keys.to_pylist(), paths, strict=True):
            if key not in self._new_locations:
                folder = self._names.folder(SEPARATOR.join([self._spec.name, *path, MEMBER_NAME]))
                self._new_locations[key] = PartitionLocation(self._root / folder, path, is_new=True)
            locations.append(self._new_locations[key])
        return locations

    def _segments(self, level: int, values: pa.RecordBatch) -> list[str]:
        """Return the last parts of the names of namespaces; new ones are remembered."""
        keys, segments = value_keys(values.columns[:level]), self._new_segments[level - 1]
        unknown = set(keys.to_pylist()) - segments.keys()
        ids = self._known.namespaces(level, wanted := pa.array(list(unknown), _KEY)).to_pylist()
        drawn = self._names.segments(level, wanted.to_pylist())
        for key, known, new in zip(wanted.to_pylist(), ids, drawn, strict=True):
            segments[key] = new if known is None else known.rpartition(SEPARATOR)[2]
        return [segments[key] for key in keys.to_pylist()]


class KnownPartitions:
    """The partitions of one spec version in one version of a namespace, by the keys of their values."""

    def __init__(self, manifest: NamespaceManifest, spec: PartitionSpec) -> None:
        members = next((each for each in members_by_spec(manifest) if each.spec.id == spec.id), None)
        self._prefix = spec.name + SEPARATOR
        self._columns = [field.column for field in spec.fields]
        self._member_positions = np.empty(0, np.intp) if members is None else members.positions
        self._values = () if members is None else tuple(members.values[name] for name in self._columns)
        self._rows = manifest.rows.select(["object_id", "object_type", *self._columns])

    def members(self, keys: pa.Array) -> npt.NDArray[np.intp]:
        """Return the positions of partitions in ``manifest.members``, -1 if there is no member."""
        indices = _positions(keys, self._keys)
        return (
            np.where(indices < 0, -1, self._member_positions[indices])
            if len(self._member_positions)
            else indices
        )

    def namespaces(self, level: int, keys: pa.Array) -> pa.Array:
        """Return the ids of the namespaces of a level by the keys of their values, NULL if there is none."""
        names, known = self._levels[level - 1]
        indices = _positions(keys, known)
        return names.take(pa.array(indices, mask=indices < 0))

    @cached_property
    def _keys(self) -> pa.Array:
        return value_keys(self._values) if self._values else pa.array([], _KEY)

    @cached_property
    def _levels(self) -> list[tuple[pa.Array, pa.Array]]:
        """For each level, the ids of its namespaces and the keys of their values."""
        names = self._rows["object_id"]
        of_spec = pc.and_(pc.equal(self._rows["object_type"], NAMESPACE), pc.starts_with(names, self._prefix))
        depth = pc.count_substring(names, SEPARATOR)
        levels = []
        for level in range(1, len(self._columns) + 1):
            rows = self._rows.filter(pc.and_(of_spec, pc.equal(depth, level))).combine_chunks()
            if not len(rows):
                levels.append((pa.array([], pa.string()), pa.array([], _KEY)))
                continue
            keys = value_keys([rows[name].chunk(0) for name in self._columns[:level]])
            levels.append((rows["object_id"].chunk(0), keys))
        return levels


_known: WeakKeyDictionary[NamespaceManifest, dict[int, KnownPartitions]] = WeakKeyDictionary()


def known_partitions(manifest: NamespaceManifest, spec: PartitionSpec) -> KnownPartitions:
    """Return the partitions of a spec version, cached for each version of a namespace."""
    of_specs = _known.setdefault(manifest, {})
    if spec.id not in of_specs:
        of_specs[spec.id] = KnownPartitions(manifest, spec)
    return of_specs[spec.id]


def _location_of(member: Member) -> PartitionLocation:
    return PartitionLocation(member.folder, tuple(member.object_id.split(SEPARATOR)[1:-1]))


def _positions(wanted: pa.Array, known: pa.Array) -> npt.NDArray[np.intp]:
    """Return the positions of keys among others, -1 if missing, without a hash table of all the others."""
    candidates = np.flatnonzero(pc.is_in(known, value_set=wanted).to_numpy(zero_copy_only=False))
    indices = pc.index_in(wanted, value_set=known.take(pa.array(candidates, pa.int64())))
    positions = pc.fill_null(indices, -1).to_numpy()
    return np.where(positions < 0, -1, np.append(candidates, -1)[positions])


def _distinct(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the first row of each distinct key, in order, and for each row the number of its key."""
    encoded = pc.dictionary_encode(keys)
    numbers = encoded.indices.to_numpy()
    _, first = np.unique(numbers, return_index=True)
    return pa.array(first), encoded.indices
