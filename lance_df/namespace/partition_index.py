"""Find the tables and namespaces of partitions by their values, and describe new ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError
from lance_df.namespace.keys import value_keys
from lance_df.namespace.manifest_table import NAMESPACE, TABLE
from lance_df.namespace.names import MEMBER_NAME, SEPARATOR, object_id, partition_name, table_folder

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.partition_spec import PartitionSpec
    from lance_df.namespace.routing import WrittenPartition
    from lance_df.storage import Location


@dataclass(frozen=True, slots=True)
class Member:
    """The table of a partition, and its published version."""

    object_id: str
    folder: Location
    version: int


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a partition's table, and the last parts of the names of the namespaces above it."""

    folder: Location
    path: tuple[str, ...]


class PartitionIndex:
    """The partitions of one spec version, in one version of a namespace."""

    def __init__(self, root: Location, manifest: NamespaceManifest, spec: PartitionSpec) -> None:
        self._root = root
        self._manifest = manifest
        self._spec = spec
        self._columns = [field.column for field in spec.fields]
        members = manifest.members
        self._members = members.filter(pc.starts_with(members["object_id"], self._spec.name + SEPARATOR))
        self._levels = range(1, len(self._columns) + 1)
        self._keys = self._keys_of(self._members, len(self._columns))
        self._new_places: dict[bytes, Place] = {}
        self._new_segments: list[dict[bytes, str]] = [{} for _ in self._levels]

    def place(self, values: pa.RecordBatch) -> list[Place]:
        """Return where the tables of partitions are; a new place, the same from then on, where there is none.

        Parameters
        ----------
        values
            Distinct partition values, one row for each partition.
        """
        keys = value_keys(values.columns)
        positions = self._positions(keys)
        levels = [value_keys(values.columns[:level]).to_pylist() for level in self._levels]
        places = []
        for number, (key, position) in enumerate(zip(keys.to_pylist(), positions, strict=True)):
            path = tuple(self._segment(level[number], depth) for depth, level in enumerate(levels))
            if position is None:
                places.append(self._new_places.setdefault(key, self._new_place(path)))
            else:
                places.append(Place(self._member(position).folder, path))
        return places

    def _new_place(self, path: tuple[str, ...]) -> Place:
        return Place(self._root / table_folder(object_id([self._spec.name, *path, MEMBER_NAME])), path)

    def _segment(self, key: bytes, depth: int) -> str:
        """Return the last part of the name of a namespace, which is kept from then on."""
        known = self._known_namespaces[depth].get(key)
        if known is not None:
            return known.rpartition(SEPARATOR)[2]
        return self._new_segments[depth].setdefault(key, partition_name())

    def find(self, partitions: Sequence[WrittenPartition]) -> list[Member | None]:
        """Return the member of each partition, None where there is none."""
        keys = pa.array([partition.key for partition in partitions], pa.large_binary())
        return [None if position is None else self._member(position) for position in self._positions(keys)]

    def rows_of(self, fresh: Sequence[tuple[WrittenPartition, int]]) -> pa.Table:
        """Return the rows of ``__manifest`` for new partitions and the versions of their tables.

        A namespace for each level of the spec that there is not yet, and below the last one the table.
        """
        if not fresh:
            return self._manifest.table.arrow_schema.empty_table()
        rows = _NewRows(self._columns, [partition.values for partition, _ in fresh])
        added: list[dict[bytes, str]] = [{} for _ in self._levels]
        for number, (partition, version) in enumerate(fresh):
            parent = self._spec.name
            for level, segment in zip(self._levels, partition.place.path, strict=True):
                key = value_keys(partition.values.columns[:level])[0].as_py()
                name = self._known_namespaces[level - 1].get(key) or added[level - 1].get(key)
                if name is None:
                    name = added[level - 1][key] = f"{parent}{SEPARATOR}{segment}"
                    rows.add(number, level, object_id=name, object_type=NAMESPACE)
                parent = name
            rows.add(
                number,
                len(self._columns),
                object_id=f"{parent}{SEPARATOR}{MEMBER_NAME}",
                object_type=TABLE,
                location=partition.place.folder.name,
                read_version=version,
            )
        return rows.table(self._manifest.table.arrow_schema)

    @cached_property
    def _known_namespaces(self) -> list[dict[bytes, str]]:
        """For each level the ids of namespaces by the key of their values."""
        rows = self._manifest.rows
        depth = pc.count_substring(rows["object_id"], SEPARATOR)
        is_own = pc.and_(
            pc.equal(rows["object_type"], NAMESPACE),
            pc.starts_with(rows["object_id"], self._spec.name + SEPARATOR),
        )
        found = []
        for level in self._levels:
            own = rows.filter(pc.and_(is_own, pc.equal(depth, level)))
            keys = self._keys_of(own, level).to_pylist()
            found.append(dict(zip(keys, own["object_id"].to_pylist(), strict=True)))
        return found

    def _keys_of(self, rows: pa.Table, level: int) -> pa.Array:
        if not len(rows):
            return pa.array([], pa.large_binary())
        return value_keys([pa.concat_arrays(rows[name].chunks) for name in self._columns[:level]])

    def _positions(self, keys: pa.Array) -> list[int | None]:
        found: list[int | None] = pc.index_in(keys, value_set=self._keys).to_pylist()
        return found

    def _member(self, position: int) -> Member:
        known = self._members.select(["object_id", "location", "read_version"])
        row = known.slice(position, 1).to_pylist()[0]
        if row["location"] is None or row["read_version"] is None:
            raise CorruptDataError(
                f"{self._manifest.table.uri}: the table {row['object_id']} has no location or no version"
            )
        return Member(row["object_id"], self._root.child(row["location"]), row["read_version"])


class _NewRows:
    """Rows of ``__manifest``. Values stay in Arrow: Python's dates and times cannot hold all of them."""

    def __init__(self, columns: Sequence[str], values: Sequence[pa.RecordBatch]) -> None:
        self._columns = list(columns)
        self._values = pa.Table.from_batches(values)
        self._rows: list[dict[str, object]] = []
        self._origins: list[int] = []
        self._levels: list[int] = []

    def add(self, origin: int, level: int, **row: object) -> None:
        """Add a row that has the first values, so many as its level, of a partition."""
        self._rows.append({"metadata": "{}", **row})
        self._origins.append(origin)
        self._levels.append(level)

    def table(self, schema: pa.Schema) -> pa.Table:
        found = pa.Table.from_pylist(self._rows, schema)
        inherited = self._values.take(pa.array(self._origins))
        for place, name in enumerate(self._columns):
            field = schema.field(name)
            has_value = pa.array([level > place for level in self._levels])
            column = pc.if_else(has_value, inherited[name], pa.scalar(None, field.type))
            found = found.set_column(schema.get_field_index(name), field, column)
        return found
