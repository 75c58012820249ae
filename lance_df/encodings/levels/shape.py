"""Describe how a field is read: its leaf columns, their ancestors, and how they are merged.

Only leaves have columns; packed structs and blobs count as leaves. Format: docs/format/levels.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from lance_df.encodings.levels.nested import Ancestor
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.blobs import DESCRIPTOR, DESCRIPTOR_2_2, is_blob_description
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lance_df.format.schema import Field

Kind: TypeAlias = Literal["struct", "list", "large_list", "map", "fixed_size_list"]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of the file.

    Attributes
    ----------
    name
        The dotted name, for messages.
    stored_type
        Arrow type of the values in the file.
    data_type
        The requested Arrow type; of a packed struct, possibly with only some children.
    selected_children
        Positions, in the stored packed struct, of the children of ``data_type``; None for all.
    ancestors
        The ancestors, innermost first.
    """

    column: int
    name: str
    stored_type: pa.DataType
    data_type: pa.DataType
    selected_children: tuple[int, ...] | None
    ancestors: tuple[Ancestor, ...]

    @property
    def is_empty_struct(self) -> bool:
        """Whether there is nothing to read, since writers store no validity for such leaves."""
        return pa.types.is_struct(self.stored_type) and self.stored_type.num_fields == 0

    @property
    def page_rows_per_row(self) -> int:
        """The number of page rows for each top-level row.

        Pages count the items of fixed-size lists of structs.
        """
        product = 1
        for ancestor in self.ancestors:
            product *= ancestor.size
        return product


@dataclass(frozen=True, slots=True)
class Group:
    """A struct, list, map or fixed-size list of structs; ``data_type`` is that of the merged array."""

    kind: Kind
    data_type: pa.DataType
    children: tuple[Shape, ...]


Shape: TypeAlias = Leaf | Group


def leaves(shape: Shape) -> Iterator[Leaf]:
    """Yield the leaves, depth first."""
    if isinstance(shape, Leaf):
        yield shape
        return
    for child in shape.children:
        yield from leaves(child)


def shape_of(
    field: Field, column_of: Callable[[Field], int | None], stored: Callable[[int], Field | None]
) -> Shape:
    """Return how ``field`` is read.

    Parameters
    ----------
    field
        The field, possibly reduced to some of its children.
    column_of
        Returns the column of a field, or None if the field has no column of its own.
    stored
        Returns the field of the file with a given id; packed structs are stored with all their children.

    Raises
    ------
    UnsupportedFeatureError
        A leaf below ``field`` has no column, or a type that cannot be nested this way.
    """
    return _Builder(column_of, stored).build(field, field.name, ())


@dataclass(frozen=True, slots=True)
class _Builder:
    column_of: Callable[[Field], int | None]
    stored: Callable[[int], Field | None]

    def build(self, field: Field, name: str, ancestors: tuple[Ancestor, ...]) -> Shape:
        if (column := self.column_of(field)) is not None:
            return self._leaf(field, column, name, ancestors)
        if not field.children:
            raise UnsupportedFeatureError(f"column {name!r} is not stored in this file")
        kind = _kind(field)
        list_level = Ancestor("list" if kind == "map" else kind, field.children[0].name, _size(field, kind))
        if list_level.kind == "fixed_size_list" and any(
            above.kind in ("list", "large_list") for above in ancestors
        ):
            raise UnsupportedFeatureError(
                f"column {name!r}: fixed-size lists of structs within a list are not supported"
            )
        children = tuple(
            self.build(child, f"{name}.{child.name}", (_named(list_level, child.name), *ancestors))
            for child in field.children
        )
        child_fields = [
            pa.field(child.name, shape.data_type, child.nullable, child.to_arrow().metadata)
            for child, shape in zip(field.children, children, strict=True)
        ]
        return Group(kind, _group_type(kind, child_fields, list_level.size), children)

    def _leaf(self, field: Field, column: int, name: str, ancestors: tuple[Ancestor, ...]) -> Leaf:
        if field.is_blob:
            is_early = field.logical_type == "large_binary" or is_blob_description(field)
            descriptor = DESCRIPTOR if is_early else DESCRIPTOR_2_2
            return Leaf(column, name, descriptor, descriptor, None, ancestors)
        wanted = field.arrow_type()
        whole = self.stored(field.id) if field.children else None
        if whole is None or len(whole.children) == len(field.children):
            return Leaf(column, name, wanted, wanted, None, ancestors)
        positions = {child.id: number for number, child in enumerate(whole.children)}
        if not positions.keys() >= {child.id for child in field.children}:
            raise CorruptDataError(f"column {name!r} is not stored with all of the requested fields")
        selected = tuple(positions[child.id] for child in field.children)
        return Leaf(column, name, whole.arrow_type(), wanted, selected, ancestors)


def _kind(field: Field) -> Kind:
    kind = field.logical_type.partition(":")[0]
    match kind:
        case "struct" | "map" | "fixed_size_list":
            return kind
        case "list" | "list.struct":
            return "list"
        case "large_list" | "large_list.struct":
            return "large_list"
        case _:
            raise UnsupportedFeatureError(f"fields of type {field.logical_type!r} cannot have children")


def _size(field: Field, kind: Kind) -> int:
    return int(field.arrow_type().list_size) if kind == "fixed_size_list" else 1


def _named(ancestor: Ancestor, name: str) -> Ancestor:
    return Ancestor(ancestor.kind, name, ancestor.size)


def _group_type(kind: Kind, children: list[pa.Field], size: int) -> pa.DataType:
    match kind:
        case "struct":
            return pa.struct(children)
        case "list":
            return pa.list_(children[0])
        case "large_list":
            return pa.large_list(children[0])
        case "fixed_size_list":
            return pa.list_(children[0], size)
        case "map":
            key, value = children[0].type
            return pa.map_(key.with_nullable(False), value)
