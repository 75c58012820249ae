"""Group the partitions of several namespaces so that rows with equal join keys are in the same group.

If the keys of two rows are equal, so is every function of the keys. A function that can be computed from the
partition values of all namespaces therefore separates partitions that share no key. It can be computed

- from a field with the same transform or expression;
- from ``identity`` fields of all its columns;
- for ``bucket(n)``: from ``bucket(m)`` if n divides m, because ``h % m % n == h % n``. For 16 and 8 buckets
  the common function is ``bucket(8)``, for 12 and 8 it is ``bucket(4)``;
- for ``truncate``: the first 2 characters from the first 5, and a number truncated to multiples of 30 from
  one truncated to multiples of 10 or 15.

``year``, ``month``, ``day`` and ``hour`` are calendar parts, none of which follows from another. But a
namespace partitioned by year, month and day shares year and month with one partitioned by year and month. All
common functions are used together. Each spec version is judged by its own fields. A NULL partition value is
treated as a value, because NULL keys have it on all sides.

Spec: partitioning, "Storage Partitioned Join" and appendix F.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.hashing import canonical_bytes
from lance_df.namespace.joins.key_types import key_class
from lance_df.namespace.pruning.spec_members import SpecMembers, members_by_spec
from lance_df.namespace.spec.partition_spec import PartitionField, PartitionSpec
from lance_df.namespace.spec.partition_values import follows_from_sources, partition_values
from lance_df.namespace.spec.transforms import BUCKETS, Transform, TransformKind
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest

    Flags = npt.NDArray[np.bool_]
    Codes = npt.NDArray[np.int64]

_SOURCE_NULL_ONLY: Final = (TransformKind.IDENTITY, TransformKind.BUCKET, TransformKind.TRUNCATE)
# key classes for which the result of a transform depends only on the value, not on the width of the type
_OF_ANY_WIDTH: Final = frozenset({"integer", "text", "binary"})
_MAX_WIDTH: Final = 2**31 - 1


@dataclass(frozen=True)
class JoinSide:
    """A namespace in a join.

    Attributes
    ----------
    needed
        For each row of ``manifest.members``, whether the join may need it; other members are left out.
    keys
        For each join key, the field id of its column.
    """

    manifest: NamespaceManifest
    needed: Flags
    keys: tuple[int, ...]

    @cached_property
    def versions(self) -> tuple[SpecMembers, ...]:
        """The needed members by spec version."""
        needed = []
        for members in members_by_spec(self.manifest):
            indices = pa.array(np.flatnonzero(self.needed[members.positions]))
            values = {name: column.take(indices) for name, column in members.values.items()}
            if len(indices):
                needed.append(SpecMembers(members.spec, members.positions[indices], values))
        return tuple(needed)

    @property
    def has_unproven(self) -> bool:
        """Whether a needed member has neither partition values nor a version; see `SpecMembers.unproven`."""
        return any(
            members.unproven is not None and bool(self.needed[members.positions[members.unproven]].any())
            for members in members_by_spec(self.manifest)
        )

    @property
    def specs(self) -> Iterator[PartitionSpec]:
        """The spec versions of needed members."""
        return (members.spec for members in self.versions)

    def fields(self, spec: PartitionSpec) -> Iterator[tuple[PartitionField, tuple[int, ...]]]:
        """Yield the fields that are functions of join keys, with the positions of these keys."""
        for field in filter(follows_from_sources, spec.fields):
            choices = [
                [index for index, key in enumerate(self.keys) if key == source] for source in field.source_ids
            ]
            for positions in itertools.product(*choices):
                yield field, positions

    def may_hold_null(self, key: int) -> bool:
        """Whether a needed member may have a row in which this key is NULL."""
        column = self.manifest.schema.columns.by_id().get(self.keys[key])
        if column is not None and not column.nullable:
            return False
        return not all(
            any(
                positions == (key,)
                and field.transform is not None
                and field.transform.kind in _SOURCE_NULL_ONLY
                and members.values[field.column].null_count == 0
                for field, positions in self.fields(members.spec)
            )
            for members in self.versions
        )

    def key_type(self, key: int) -> pa.DataType:
        """Return the type of a key's column."""
        return self.manifest.schema.columns.by_id()[self.keys[key]].arrow_type()


@dataclass(frozen=True, slots=True)
class Grouping:
    """Groups of members; members of different groups share no key.

    Attributes
    ----------
    functions
        The functions that separate the groups, such as ``bucket(8)``.
    codes
        For each side, the group number of each of its members, -1 for members that are not needed.
    """

    functions: tuple[str, ...]
    codes: tuple[Codes, ...]
    num_groups: int


def common_grouping(sides: Sequence[JoinSide]) -> Grouping | str:
    """Return the finest grouping that all sides share, or the reason why there is none.

    Parameters
    ----------
    sides
        All have the same number of keys; keys at the same position are equal in every row of the join.
    """
    if unproven := [side for side in sides if side.has_unproven]:
        uri = unproven[0].manifest.table.uri
        return f"{uri}: a table has neither a version to read nor partition values"
    functions = list(_functions(sides))
    if not functions:
        return f"no common partition field on the keys: {_described(sides)}{_types_described(sides)}"
    try:
        per_function = [[function.values(side) for side in sides] for function in functions]
    except InvalidInputError as err:
        return f"partition values cannot be compared: {err}"
    codes = np.zeros(sum(len(values) for values in per_function[0]), np.int64)
    for arrays in per_function:
        encoded = pc.dictionary_encode(pa.concat_arrays(arrays), null_encoding="encode")
        codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes, return_inverse=True)
    num_groups = int(codes.max(initial=-1)) + 1
    return Grouping(tuple(map(str, functions)), tuple(_spread(codes, sides)), num_groups)


def _spread(codes: Codes, sides: Sequence[JoinSide]) -> Iterator[Codes]:
    start = 0
    for side in sides:
        groups = np.full(len(side.needed), -1, np.int64)
        for members in side.versions:
            groups[members.positions] = codes[start : start + len(members)]
            start += len(members)
        yield groups


def _described(sides: Sequence[JoinSide]) -> str:
    texts = []
    for side in sides:
        for spec in side.specs:
            names = ", ".join(dict.fromkeys(_name(field) for field, _ in side.fields(spec)))
            texts.append(f"{spec.name} of {side.manifest.table.uri.rsplit('/', 2)[-2]} has {names or 'none'}")
    return "; ".join(dict.fromkeys(texts)) or "no partition is left"


def _types_described(sides: Sequence[JoinSide]) -> str:
    texts = []
    for position in range(len(sides[0].keys)):
        types = dict.fromkeys(str(side.key_type(position)) for side in sides)
        if len(types) > 1:
            texts.append(f"; key {position + 1} is {' and '.join(types)}")
    return "".join(texts)


def _name(field: PartitionField) -> str:
    return str(field.transform or field.expression)


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of keys that can be computed from the partition values of every side.

    ``fields`` maps the number of the side and of the spec version to its source: a field with the same or a
    finer transform, or the identity fields of its keys.
    """

    target: PartitionField
    positions: tuple[int, ...]
    fields: Mapping[tuple[int, int], PartitionField | tuple[PartitionField, ...]]
    sides: tuple[JoinSide, ...]

    def __str__(self) -> str:
        return _name(self.target)

    def values(self, side: JoinSide) -> pa.Array:
        """Return the canonical bytes of the function's value for the needed members of a side."""
        number = next(number for number, other in enumerate(self.sides) if other is side)
        parts = [
            canonical_bytes(self._values(members, self.fields[number, members.spec.id]))
            for members in side.versions
        ]
        return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.large_binary())

    def _values(self, members: SpecMembers, field: PartitionField | tuple[PartitionField, ...]) -> pa.Array:
        if isinstance(field, tuple):
            columns = [members.values[each.column] for each in field]
            target = self.target
            if target.transform is not None and target.transform.kind is TransformKind.TRUNCATE:
                target = dataclasses.replace(target, result_type=columns[0].type)
            return partition_values(target, columns)
        values = members.values[field.column]
        if field.transform == self.target.transform:
            return values
        if self.target.transform is not None and self.target.transform.num_buckets is not None:
            numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
            reduced = (numbers % self.target.transform.num_buckets).astype(np.int32)
            return pa.array(reduced, mask=values.is_null().to_numpy(zero_copy_only=False))
        return partition_values(dataclasses.replace(self.target, result_type=values.type), [values])


def _functions(sides: Sequence[JoinSide]) -> Iterator[_Function]:
    """Yield every function of keys that can be computed for all spec versions of all sides."""
    families: dict[tuple[object, tuple[int, ...]], PartitionField] = {}
    for side in sides:
        for spec in side.specs:
            for field, positions in side.fields(spec):
                families.setdefault((_family(field), positions), field)
    for (family, positions), example in families.items():
        sources = _sources(sides, family, positions)
        target = None if sources is None else _target(example, sources, sides, positions)
        if sources is not None and target is not None:
            yield _Function(target, positions, sources, tuple(sides))


def _family(field: PartitionField) -> object:
    """Return the expression or kind of transform, which fields with a common coarser field share."""
    return field.expression if field.transform is None else field.transform.kind


def _sources(
    sides: Sequence[JoinSide], family: object, positions: tuple[int, ...]
) -> dict[tuple[int, int], PartitionField | tuple[PartitionField, ...]] | None:
    matching: dict[tuple[int, int], PartitionField | tuple[PartitionField, ...]] = {}
    for number, side in enumerate(sides):
        for spec in side.specs:
            fields = list(side.fields(spec))
            direct = [field for field, at in fields if at == positions and _family(field) == family]
            plain = {
                at[0]: field
                for field, at in fields
                if field.transform is not None and field.transform.kind is TransformKind.IDENTITY
            }
            if direct:
                matching[number, spec.id] = direct[0]
            elif all(position in plain for position in positions):
                matching[number, spec.id] = tuple(plain[position] for position in positions)
            else:
                return None
    return matching


def _target(
    example: PartitionField,
    sources: Mapping[tuple[int, int], PartitionField | tuple[PartitionField, ...]],
    sides: Sequence[JoinSide],
    positions: tuple[int, ...],
) -> PartitionField | None:
    """Return the field that can be computed from all of ``sources``, or None if it separates nothing."""
    direct = [field for field in sources.values() if isinstance(field, PartitionField)]
    if len({key_class(field.result_type) for field in direct}) != 1:
        return None
    if len(direct) < len(sources) or example.transform is None:
        # the function is computed: transforms of keys of one class ignore the width of the type; for
        # expressions this is known of integers only
        of_any_width = _OF_ANY_WIDTH if example.transform is not None else {"integer"}
        for position in positions:
            types = {side.key_type(position) for side in sides}
            classes = {key_class(each) for each in types}
            if len(types) > 1 and not (len(classes) == 1 and classes <= of_any_width):
                return None
    if example.transform is None:
        return example
    kind = example.transform.kind
    if kind in BUCKETS:
        common = math.gcd(*(field.transform.num_buckets or 0 for field in direct if field.transform))
        return None if common < 2 else _with(example, Transform(kind, num_buckets=common))
    if kind is TransformKind.TRUNCATE:
        widths = [field.transform.width or 0 for field in direct if field.transform]
        is_text = key_class(sides[0].key_type(positions[0])) == "text"
        width = min(widths) if is_text else math.lcm(*widths)
        return None if width > _MAX_WIDTH else _with(example, Transform(kind, width=width))
    return example


def _with(field: PartitionField, transform: Transform) -> PartitionField:
    return dataclasses.replace(field, transform=transform)
