"""Convert Arrow arrays to leaf columns: repetition and definition levels, and the values of the slots.

Format: docs/format/levels.md. A nested array is walked from the root to its leaves. On the way down every
slot carries a *mark*: 0, or the number of the outermost layer at which it is null or empty. Marks count from
the root, so all leaves below share the work; a leaf translates marks to levels, which count from the leaf.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.list_items import list_offsets, selected_items
from lance_df.errors import InvalidInputError
from lance_df.format.encodings_v2_1 import RepDefLayer
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.format.schema import Field

T = TypeVar("T", bound=np.generic)

Levels: TypeAlias = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafColumn:
    """A leaf of some rows, ready to become a page.

    Attributes
    ----------
    field
        The leaf.
    path
        Dotted name, for messages.
    values
        One value for each visible slot, in order. The value of a null slot is arbitrary.
    layers
        The layers, innermost first.
    repetition, definition
        One level for each slot; None if no layer needs them.
    max_visible
        A slot is visible, that is, owns a value, iff its definition level is at most this.
    num_rows
        The ``Page.length``: top-level rows, times the dimension below a fixed-size list of structs.
    """

    field: Field
    path: str
    values: pa.Array
    layers: tuple[RepDefLayer, ...]
    repetition: Levels | None
    definition: Levels | None
    max_visible: int
    num_rows: int

    @property
    def num_slots(self) -> int:
        return len(self.values) if self.definition is None else len(self.definition)

    @property
    def max_repetition(self) -> int:
        return sum(layer.is_list for layer in self.layers)

    @property
    def max_definition(self) -> int:
        return sum(layer.num_levels for layer in self.layers)

    def visible(self) -> npt.NDArray[np.bool_] | None:
        """Which slots own a value; None if all do."""
        if self.definition is None or self.repetition is None:
            return None
        return self.definition <= self.max_visible

    def valid(self) -> npt.NDArray[np.bool_] | None:
        """Which values are not null; None if all are."""
        if self.definition is None:
            return None
        visible = self.definition if self.repetition is None else self.definition[self.visible()]
        return visible == 0


class _Kind(Enum):
    ITEM = auto()
    LIST = auto()


_LIST_LAYERS = {  # by whether null lists and empty lists occur
    (False, False): RepDefLayer.ALL_VALID_LIST,
    (True, False): RepDefLayer.NULLABLE_LIST,
    (False, True): RepDefLayer.EMPTYABLE_LIST,
    (True, True): RepDefLayer.NULL_AND_EMPTY_LIST,
}


@dataclass(frozen=True, slots=True)
class _Slots:
    """The state of the walk above one array.

    ``marks`` is None until a slot is null or empty, ``starts`` (the repetition, counted from the root) until
    a list was passed, and ``visible`` as long as every slot has an entry in the next array.
    """

    kinds: tuple[_Kind, ...]
    num_slots: int
    num_rows: int
    marks: Levels | None = None
    starts: Levels | None = None
    visible: npt.NDArray[np.bool_] | None = None

    @property
    def num_marks(self) -> int:
        return sum(1 if kind is _Kind.ITEM else 2 for kind in self.kinds)


def leaf_columns(field: Field, array: pa.Array) -> Iterator[LeafColumn]:
    """Yield the leaf columns of a top-level column, in the order of the file's columns.

    Parameters
    ----------
    field
        The column.
    array
        Rows of its Arrow storage type.

    Raises
    ------
    InvalidInputError
        A value is null, but the schema does not allow it.
    """
    if not (field.children or array.null_count or pa.types.is_dictionary(array.type)):
        yield _flat_leaf(field, array)
        return
    slots = _Slots(kinds=(), num_slots=len(array), num_rows=len(array))
    yield from _walk(field, field.name, array, slots)


def _flat_leaf(field: Field, array: pa.Array) -> LeafColumn:
    """Return a column without levels."""
    return LeafColumn(
        field=field,
        path=field.name,
        values=array,
        layers=(RepDefLayer.ALL_VALID_ITEM,),
        repetition=None,
        definition=None,
        max_visible=0,
        num_rows=len(array),
    )


def _walk(field: Field, path: str, array: pa.Array, slots: _Slots) -> Iterator[LeafColumn]:
    if field.has_column:
        values = _with_null_indices(array) if pa.types.is_dictionary(array.type) else array
        yield _leaf(field, path, values, _mark_nulls(field, path, values, slots))
    elif field.is_struct:
        below = _mark_nulls(field, path, array, slots)
        for position, child in enumerate(field.children):
            yield from _walk(child, f"{path}.{child.name}", array.field(position), below)
    elif pa.types.is_fixed_size_list(array.type):
        below, items = _spread(array, _mark_nulls(field, path, array, slots))
        yield from _walk(field.children[0], f"{path}.{field.children[0].name}", items, below)
    else:
        below, items = _enter_lists(field, path, array, slots)
        yield from _walk(field.children[0], f"{path}.{field.children[0].name}", items, below)


def _mark_nulls(field: Field, path: str, array: pa.Array, slots: _Slots) -> _Slots:
    """Pass an item layer: mark the slots that become null at this layer."""
    mark = slots.num_marks + 1
    below = replace(slots, kinds=(*slots.kinds, _Kind.ITEM))
    if not array.null_count:
        return below
    marks = np.zeros(slots.num_slots, np.uint16) if slots.marks is None else slots.marks.copy()
    null = _null_mask(array)
    if slots.visible is None:
        fresh = null & (marks == 0)
    else:
        fresh = np.zeros(slots.num_slots, np.bool_)
        fresh[slots.visible] = null
        fresh &= marks == 0
    if not field.nullable and fresh.any():
        raise InvalidInputError(f"column {path!r} is declared not null, but the data holds nulls")
    marks[fresh] = mark
    return replace(below, marks=marks)


def _enter_lists(field: Field, path: str, array: pa.Array, slots: _Slots) -> tuple[_Slots, pa.Array]:
    """Pass a list layer: each list becomes its items, and each null or empty list a slot without a value."""
    null_mark = slots.num_marks + 1
    level = sum(kind is _Kind.LIST for kind in slots.kinds) + 1
    offsets = list_offsets(array)
    lengths = np.diff(offsets)
    null = _null_mask(array) if array.null_count else np.zeros(len(array), np.bool_)
    marks = np.zeros(slots.num_slots, np.uint16) if slots.marks is None else slots.marks
    visible = slots.visible
    fine = marks == 0 if visible is None else marks[visible] == 0
    if not field.nullable and (null & fine).any():
        raise InvalidInputError(f"column {path!r} is declared not null, but the data holds nulls")
    num_items = np.where(fine & ~null, lengths, 0)

    slot_levels = (np.where(null, null_mark, null_mark + 1) * (fine & (num_items == 0))).astype(np.uint16)
    counts = np.maximum(num_items, 1)
    has_items = num_items > 0
    if visible is not None:
        slot_levels = _at_slots(slot_levels, visible, 0)
        counts = _at_slots(counts, visible, 1)
        has_items = _at_slots(has_items, visible, 0)
    starts = np.ones(slots.num_slots, np.uint16) if slots.starts is None else slots.starts
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
    spread_starts = np.zeros(int(counts.sum()), np.uint16)
    spread_starts[firsts[: len(counts)]] = np.where(starts == 0, level, starts)
    below = replace(
        slots,
        kinds=(*slots.kinds, _Kind.LIST),
        num_slots=len(spread_starts),
        marks=np.repeat(marks + slot_levels, counts),
        starts=spread_starts,
        visible=np.repeat(has_items, counts),
    )
    return below, selected_items(array, offsets, num_items)


def _spread(array: pa.Array, slots: _Slots) -> tuple[_Slots, pa.Array]:
    """Replace every slot of a fixed-size list by one slot for each of its items."""
    size = array.type.list_size
    below = replace(
        slots,
        num_slots=slots.num_slots * size,
        num_rows=slots.num_rows * size,
        marks=None if slots.marks is None else np.repeat(slots.marks, size),
        starts=None if slots.starts is None else np.repeat(slots.starts, size),
        visible=None if slots.visible is None else np.repeat(slots.visible, size),
    )
    return below, array.values.slice(array.offset * size, len(array) * size)


def _leaf(field: Field, path: str, values: pa.Array, slots: _Slots) -> LeafColumn:
    layers = _layers(slots)
    num_lists = sum(kind is _Kind.LIST for kind in slots.kinds)
    repetition = definition = None
    if slots.starts is not None:
        repetition = np.where(slots.starts == 0, 0, num_lists + 1 - slots.starts).astype(np.uint16)
    if any(layer.num_levels for layer in layers):
        marks = np.zeros(slots.num_slots, np.uint16) if slots.marks is None else slots.marks
        definition = _level_of_mark(slots.kinds, layers)[marks]
    first_list = next((i for i, layer in enumerate(layers) if layer.is_list), len(layers))
    return LeafColumn(
        field=field,
        path=path,
        values=values,
        layers=layers,
        repetition=repetition,
        definition=definition,
        max_visible=sum(layer.num_levels for layer in layers[:first_list]),
        num_rows=slots.num_rows,
    )


def _with_null_indices(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Move nulls from the dictionary to the indices, since stored dictionaries have no nulls."""
    if not array.dictionary.null_count:
        return array
    coded = array.dictionary_decode().dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.cast(array.type.index_type), coded.dictionary)


def _layers(slots: _Slots) -> tuple[RepDefLayer, ...]:
    """Choose the kind of each layer, innermost first, by the nulls and empty lists that occur.

    If there are structs around lists, every layer is declared with all it may contain, in every page: pylance
    14 misreads pages of one column that disagree, and all-valid lists around nullable items (file format,
    4.3.2).
    """
    num_items = next((i for i, kind in enumerate(slots.kinds[::-1]) if kind is _Kind.LIST), len(slots.kinds))
    if _Kind.ITEM in slots.kinds[: len(slots.kinds) - num_items]:
        kinds = {_Kind.ITEM: RepDefLayer.NULLABLE_ITEM, _Kind.LIST: RepDefLayer.NULL_AND_EMPTY_LIST}
        return tuple(kinds[kind] for kind in reversed(slots.kinds))
    present = np.zeros(slots.num_marks + 1, np.bool_)
    if slots.marks is not None:
        present[slots.marks] = True
    num_lists = len(slots.kinds) - num_items
    lists = [
        _LIST_LAYERS[null, empty] for null, empty in present[1 : 2 * num_lists + 1].reshape(-1, 2).tolist()
    ]
    # everything within a null struct is null too, whatever the Arrow arrays contain
    nullable = np.logical_or.accumulate(present[2 * num_lists + 1 :])
    items = [RepDefLayer.NULLABLE_ITEM if null else RepDefLayer.ALL_VALID_ITEM for null in nullable]
    return (*reversed(items), *reversed(lists))


def _level_of_mark(kinds: tuple[_Kind, ...], layers: tuple[RepDefLayer, ...]) -> Levels:
    table = [0]
    below = sum(layer.num_levels for layer in layers)
    for kind, layer in zip(kinds, reversed(layers), strict=True):
        below -= layer.num_levels
        # marks for which the layer has no level do not occur
        table += [below + 1] if kind is _Kind.ITEM else [below + 1, below + layer.num_levels]
    return np.array(table, np.uint16)


def _at_slots(part: npt.NDArray[T], visible: npt.NDArray[np.bool_], rest: int) -> npt.NDArray[T]:
    whole = np.full(len(visible), rest, part.dtype)
    whole[visible] = part
    return whole


def _null_mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    return array.is_null().to_numpy(zero_copy_only=False)
