"""Decode repetition and definition levels, by which the slots of a page represent lists and nulls.

A *slot* is one entry of the level streams; a *visible* one owns a leaf value, which may be null. Definition
level 0 is a value; the levels of the layers follow, innermost first. A slot has the level of the outermost
layer that is null or empty. Repetition levels count list layers, innermost first: a slot with level k starts
a new list at list layer k and in all layers within it, so a row starts at the highest level. Format:
docs/format/levels.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.codecs.fixed_width import decode_fixed_width_block
from lance_df.encodings.gather import take
from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import rows_of_spans
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.buffers import Chunked, Counts
    from lance_df.encodings.plan import Rows
    from lance_df.format.encodings_v2_1 import Encoding, Layers

Levels: TypeAlias = npt.NDArray[np.uint16]


@dataclass(frozen=True, slots=True)
class LevelScheme:
    """The meaning of the level numbers of a page.

    Attributes
    ----------
    max_repetition
        The number of list layers; rows start at slots of this level. 0: no repetition levels, each slot is a
        row.
    max_definition
        The highest level with a meaning. 0: no definition levels.
    max_visible
        Slots with at most this definition level own a value.
    lists_at
        For each definition level, the number of list layers at or within the layer that owns it.
    """

    layers: Layers
    max_repetition: int
    max_definition: int
    max_visible: int
    lists_at: npt.NDArray[np.int64]

    @classmethod
    def of(cls, layers: Layers) -> LevelScheme:
        """Assign level numbers to ``layers``."""
        num_lists, lists_at, max_visible = 0, [0], None
        for layer in layers:
            if layer.is_list:
                num_lists += 1
                if max_visible is None:
                    max_visible = len(lists_at) - 1
            lists_at += [num_lists] * layer.num_levels
        max_definition = len(lists_at) - 1
        return cls(
            layers,
            num_lists,
            max_definition,
            max_definition if max_visible is None else max_visible,
            np.array(lists_at, np.int64),
        )

    def check(self, repetition: Levels | None, definition: Levels | None) -> None:
        """Raise `CorruptDataError` for levels without a meaning, and for missing streams."""
        for name, levels, highest in (
            ("repetition", repetition, self.max_repetition),
            ("definition", definition, self.max_definition),
        ):
            if levels is None:
                if highest and (name == "repetition"):
                    raise CorruptDataError(f"{name} levels are missing, expected levels up to {highest}")
            elif len(levels) and int(levels.max()) > highest:
                raise CorruptDataError(
                    f"{name} level {levels.max()} is out of range, expected at most {highest}"
                )


@dataclass(frozen=True, slots=True)
class Slots:
    """Levels and values of some rows of a page, in row order.

    ``values`` has one entry, never null, for each visible slot. Absent levels are all 0.
    """

    scheme: LevelScheme
    repetition: Levels | None
    definition: Levels | None
    values: pa.Array

    def visible(self) -> npt.NDArray[np.bool_] | None:
        """Return which slots own a value; None if all do."""
        if self.definition is None or not self.scheme.max_repetition:
            return None
        return self.definition <= self.scheme.max_visible

    def nulls(self) -> npt.NDArray[np.bool_] | None:
        """Return which values are null; None if none are."""
        if self.definition is None:
            return None
        return self.definition[self.definition <= self.scheme.max_visible] > 0

    def checked(self) -> Slots:
        """Return self if there are as many values as visible slots.

        Raises
        ------
        CorruptDataError
            The numbers differ, or a level has no meaning.
        """
        self.scheme.check(self.repetition, self.definition)
        levels = self.definition if self.definition is not None else self.repetition
        if levels is not None:
            visible = self.visible()
            count = len(levels) if visible is None else int(np.count_nonzero(visible))
            if count != len(self.values):
                raise CorruptDataError(
                    f"the levels describe {count} values, but the page has {len(self.values)}"
                )
        repetition, definition = self.repetition, self.definition
        if repetition is not None and definition is not None and len(repetition) != len(definition):
            raise CorruptDataError(
                f"there are {len(repetition)} repetition levels, but {len(definition)} definition levels"
            )
        return self

    def select(self, rows: Rows, row_of_slot: Counts | None) -> Slots:
        """Return the slots of ``rows`` with their values. See `select_levels`."""
        slots, chosen = self.select_levels(rows, row_of_slot)
        if isinstance(chosen, RowRange):
            return replace(slots, values=self.values.slice(chosen.start, len(chosen)))
        return replace(slots, values=take(self.values, chosen))

    def select_levels(self, rows: Rows, row_of_slot: Counts | None) -> tuple[Slots, Rows]:
        """Return the slots of ``rows`` with nulls for values, and the positions of their values.

        Parameters
        ----------
        rows
            Rows as ``row_of_slot`` numbers them; without lists, slots.
        row_of_slot
            The row of each slot, ascending; None if there are no lists.
        """
        slots = rows if row_of_slot is None else _slots_of_rows(rows, row_of_slot)
        index = slice(slots.start, slots.stop) if isinstance(slots, RowRange) else slots
        chosen, visible = slots, self.visible()
        if visible is not None:
            if isinstance(slots, RowRange):
                start = int(np.count_nonzero(visible[: slots.start]))
                chosen = RowRange(start, start + int(np.count_nonzero(visible[index])))
            else:
                chosen = (np.cumsum(visible) - 1)[slots][visible[slots]]
        repetition = None if self.repetition is None else self.repetition[index]
        definition = None if self.definition is None else self.definition[index]
        return Slots(self.scheme, repetition, definition, pa.nulls(len(chosen))), chosen


def _slots_of_rows(rows: Rows, row_of_slot: Counts) -> Rows:
    if isinstance(rows, RowRange):
        start, stop = np.searchsorted(row_of_slot, [rows.start, rows.stop]).tolist()
        return RowRange(start, stop)
    starts = np.searchsorted(row_of_slot, rows)
    return rows_of_spans(starts, np.searchsorted(row_of_slot, rows, side="right") - starts)


def decode_levels(encoding: Encoding, blocks: Chunked, counts: Counts) -> Levels:
    """Decode ``counts[i]`` levels of each chunk."""
    data = decode_fixed_width_block(encoding, blocks, counts, bits_per_value=16)
    return data[: int(counts.sum()) * 2].view("<u2")


def rows_of_slots(repetition: Levels, max_repetition: int, first_row: int) -> Counts:
    """Return the row of each slot; the first slot that starts a row starts row ``first_row``."""
    return np.cumsum(repetition == max_repetition, dtype=np.int64) + (first_row - 1)
