"""Decode blob pages of 2.1: positions and sizes of values that are stored elsewhere in the file.

``size > 0`` is a value at ``position``; both 0 is an empty value; otherwise ``position`` is
``definition level << 16 | repetition level``. Format: docs/format/blob.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.layouts.leveled_page import LeveledPage
from lance_df.encodings.levels.decode import LevelScheme, Slots
from lance_df.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from lance_df.encodings.layouts.page_decoder import PageDecoder
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_1 import Layers


class BlobPage:
    """Loads descriptors, and the levels within them."""

    __slots__ = ("_inner", "_scheme")

    def __init__(self, inner: PageDecoder, layers: Layers) -> None:
        self._inner = inner
        self._scheme = LevelScheme.of(layers)
        if self._scheme.max_repetition:
            raise UnsupportedFeatureError("blobs within lists are not supported")

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedDescriptors, Rows]]:
        """Plan to load the descriptors of rows. See `PageDecoder`."""
        inner, rows = yield from self._inner.load(rows)
        return LoadedDescriptors(inner, self._scheme), rows

    def whole(self) -> IoPlan[None]:
        """Return None, since descriptors are structs. See `PageDecoder`."""
        yield from ()
        return None


class LoadedDescriptors(LeveledPage):
    """Descriptors of a blob page in memory."""

    __slots__ = ("_inner", "_scheme")

    def __init__(self, inner: LeveledPage, scheme: LevelScheme) -> None:
        self._inner = inner
        self._scheme = scheme

    def slots(self, rows: Rows) -> Slots:
        """Return the slots of rows. See `LeveledPage`."""
        descriptors = self._inner.slots(rows).values
        position, size = (np.asarray(child) for child in descriptors.flatten())
        definition = np.where(size == 0, np.minimum(position >> 16, 0xFFFF), 0).astype(np.uint16)
        return Slots(self._scheme, None, definition, descriptors).checked()
