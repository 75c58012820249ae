"""Build nested Arrow arrays from the slots of one leaf, and merge the arrays of sibling leaves.

A *path array* has everything above one leaf: lists, structs with a single child, fixed-size lists. The path
arrays of the leaves below a field have the same shape, since every leaf repeats the levels of its ancestors;
they are merged from the root down. Format: docs/format/levels.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import bitmap, with_validity
from lance_df.encodings.levels.decode import LevelScheme, Slots
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.format.encodings_v2_1 import RepDefLayer
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.levels.decode import Levels


@dataclass(frozen=True, slots=True)
class Ancestor:
    """One field above a leaf. ``size`` is the dimension of a fixed-size list of structs."""

    kind: Literal["struct", "list", "large_list", "fixed_size_list"]
    name: str
    size: int = 1


_NULL_LIST_LAYERS = (RepDefLayer.NULLABLE_LIST, RepDefLayer.NULL_AND_EMPTY_LIST)


def path_array(slots: Slots, ancestors: Sequence[Ancestor]) -> pa.Array:
    """Return the array of the outermost ancestor, or of the leaf itself if it has none.

    Parameters
    ----------
    slots
        The slots of whole rows.
    ancestors
        The ancestors, innermost first.

    Raises
    ------
    CorruptDataError
        The layers of the page are not those of the ancestors, or the levels contradict each other.
    """
    layers = slots.scheme.layers
    expected = [False, *(ancestor.kind in ("list", "large_list") for ancestor in ancestors)]
    if [layer.is_list for layer in layers] != expected:
        raise CorruptDataError(
            f"the page has layers {[layer.name for layer in layers]}, but the schema has "
            f"{['item', *(ancestor.kind for ancestor in reversed(ancestors))]}"
        )
    if not ancestors:
        definition = slots.definition
        return with_validity(slots.values, None if definition is None else definition == 0)
    walk = _Unravelling(slots)
    array = with_validity(slots.values, walk.item_layer(layers[0]))
    for number, (layer, ancestor) in enumerate(zip(layers[1:], ancestors, strict=True), start=1):
        if layer.is_list:
            array = walk.list_layer(layer, layers[number + 1 :], array, large=ancestor.kind == "large_list")
        elif ancestor.kind == "fixed_size_list":
            walk.keep_every(ancestor.size)
            count = _exact_quotient(len(array), ancestor.size)
            list_type = pa.list_(array.type, ancestor.size)
            array = _array(list_type, count, walk.item_layer(layer), [array])
        else:
            struct_type = pa.struct([pa.field(ancestor.name, array.type)])
            array = _array(struct_type, len(array), walk.item_layer(layer), [array])
    return array


def empty_path_array(data_type: pa.DataType, ancestors: Sequence[Ancestor]) -> pa.Array:
    """Return an empty array of a leaf of ``data_type`` with these ancestors."""
    kinds = (ancestor.kind in ("list", "large_list") for ancestor in ancestors)
    layers = tuple(RepDefLayer.ALL_VALID_LIST if is_list else RepDefLayer.ALL_VALID_ITEM for is_list in kinds)
    scheme = LevelScheme.of((RepDefLayer.ALL_VALID_ITEM, *layers))
    return path_array(Slots(scheme, np.empty(0, np.uint16), None, pa.array([], data_type)), ancestors)


class _Unravelling:
    """Level streams on the way outwards: ``levels`` definition levels and ``lists`` list layers are done."""

    def __init__(self, slots: Slots) -> None:
        self.repetition: Levels | None = slots.repetition
        self.definition: Levels | None = slots.definition
        self.levels = 0
        self.lists = 0
        self._lists_at = slots.scheme.lists_at

    def item_layer(self, layer: RepDefLayer) -> npt.NDArray[np.bool_] | None:
        """Return which entries are valid; None if all are."""
        if not layer.num_levels:
            return None
        max_level = self.levels
        self.levels += 1
        if self.definition is None:
            return None
        return self.definition[self._lists_at[self.definition] <= self.lists] <= max_level

    def keep_every(self, size: int) -> None:
        """Go from items of fixed-size lists to the lists, keeping one of the ``size`` equal slots of each."""
        if self.repetition is not None:
            self.repetition = self.repetition[::size]
        if self.definition is not None:
            self.definition = self.definition[::size]

    def list_layer(
        self, layer: RepDefLayer, outer: Sequence[RepDefLayer], items: pa.Array, *, large: bool
    ) -> pa.Array:
        """Return the lists over ``items``."""
        if self.repetition is None:
            raise CorruptDataError("a page of lists has no repetition levels")
        inside = self.levels
        self.levels += layer.num_levels
        self.lists += 1
        starts = self.repetition > 0
        if self.definition is None:
            begins, valid = np.flatnonzero(starts), None
            num_items = len(starts)
        else:
            highest = self.levels
            for above in outer:
                if above.is_list:
                    break
                highest += above.num_levels
            counted = ~(starts & (self.definition > inside))
            seen = starts & (self.definition <= highest)
            before = np.cumsum(counted, dtype=np.int64) - counted
            begins, num_items = before[seen], int(np.count_nonzero(counted))
            seen_levels = self.definition[seen]
            valid = seen_levels <= self.levels
            if layer in _NULL_LIST_LAYERS:
                valid &= seen_levels != inside + 1
            self.definition = self.definition[starts]
        self.repetition = self.repetition[starts] - np.uint16(1)
        if num_items != len(items):
            raise CorruptDataError(
                f"the levels of a list describe {num_items} items, but the page has {len(items)}"
            )
        if num_items >= 1 << 31 and not large:
            raise InvalidInputError(f"{num_items} list items do not fit into one array; read fewer rows")
        ends = np.append(begins, num_items)
        offsets = ends.astype(np.int64) if large else ends.astype(np.int32)
        list_type = pa.large_list(items.type) if large else pa.list_(items.type)
        return _array(list_type, len(begins), valid, [items], offsets)


def _array(
    data_type: pa.DataType,
    count: int,
    valid: npt.NDArray[np.bool_] | None,
    children: Sequence[pa.Array],
    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64] | None = None,
) -> pa.Array:
    if valid is not None and len(valid) != count:
        raise CorruptDataError(f"the levels describe the validity of {len(valid)} entries, expected {count}")
    num_nulls = 0 if valid is None else count - int(np.count_nonzero(valid))
    buffers = [bitmap(valid) if valid is not None and num_nulls else None]
    if offsets is not None:
        buffers.append(pa.py_buffer(offsets))
    return pa.Array.from_buffers(data_type, count, buffers, num_nulls, children=list(children))


def _exact_quotient(count: int, size: int) -> int:
    if size == 0 or count % size:
        raise CorruptDataError(f"{count} items cannot be divided into lists of {size} items")
    return count // size
