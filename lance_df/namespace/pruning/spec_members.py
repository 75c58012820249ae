"""The members of a namespace by spec version, with their partition values as contiguous columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import one_array
from lance_df.errors import CorruptDataError
from lance_df.expr.evaluate import evaluate
from lance_df.expr.nodes import And, Column, IsNull, Predicate
from lance_df.expr.walk import columns
from lance_df.namespace.names import SEPARATOR
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.namespace.spec.partition_spec import PartitionSpec


@dataclass(frozen=True, slots=True)
class SpecMembers:
    """The members that were partitioned by one spec version.

    Attributes
    ----------
    positions
        The positions of the members in ``manifest.members``, ascending.
    values
        The partition values of the members, by column name in ``__manifest``.
    unproven
        Marks the members that have neither a version to read nor any partition value: each is the partition
        of NULL, or was created by a program that does not support partitions. Their values prove nothing.
        None if there are no such members.
    """

    spec: PartitionSpec
    positions: npt.NDArray[np.intp]
    values: Mapping[str, pa.Array]
    unproven: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.positions)


_known: WeakKeyDictionary[NamespaceManifest, tuple[SpecMembers, ...]] = WeakKeyDictionary()


def members_by_spec(manifest: NamespaceManifest) -> tuple[SpecMembers, ...]:
    """Return the members of each spec version that has any, cached for each version of a namespace.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version.
    """
    members = _known.get(manifest)
    if members is None:
        members = _known[manifest] = tuple(_members_by_spec(manifest))
    return members


def spec_numbers(manifest: NamespaceManifest) -> npt.NDArray[np.int64]:
    """Return the number of the spec version of each row of ``manifest.members``.

    Raises
    ------
    CorruptDataError
        A member belongs to no existing spec version.
    """
    numbers = np.zeros(len(manifest.members), dtype=np.int64)
    for members in members_by_spec(manifest):
        numbers[members.positions] = members.spec.id
    return numbers


def _members_by_spec(manifest: NamespaceManifest) -> Iterator[SpecMembers]:
    ids = manifest.members["object_id"]
    rest = np.ones(len(ids), dtype=np.bool_)
    for spec in manifest.specs:
        # v1$ is not a prefix of v10$
        of_spec = pc.starts_with(ids, spec.name + SEPARATOR).to_numpy(zero_copy_only=False)
        positions = np.flatnonzero(of_spec)
        if not len(positions):
            continue
        rest &= ~of_spec
        rows = manifest.members if len(positions) == len(ids) else manifest.members.take(pa.array(positions))
        values = {field.column: one_array(rows[field.column]) for field in spec.fields}
        yield SpecMembers(spec, positions, values, _unproven(rows, spec))
    if rest.any():
        name = ids[int(np.argmax(rest))].as_py().partition(SEPARATOR)[0]
        raise CorruptDataError(
            f"{manifest.table.uri}: a table belongs to spec version {name!r}, which does not exist"
        )


def unproven_rows(spec: PartitionSpec) -> Predicate:
    """Return a predicate for rows that have neither a version to read nor any value of a spec version."""
    names = ("read_version", "read_tag", *(field.column for field in spec.fields))
    return And(tuple(IsNull(Column((name,))) for name in names))


def _unproven(rows: pa.Table, spec: PartitionSpec) -> npt.NDArray[np.bool_] | None:
    if not rows["read_version"].null_count:
        return None
    predicate = unproven_rows(spec)
    truth = evaluate(predicate, {path: rows[path[0]] for path in columns(predicate)}, len(rows))
    return truth.to_numpy(zero_copy_only=False) if truth.true_count else None
