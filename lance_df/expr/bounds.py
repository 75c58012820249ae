"""What bounds say about a predicate: whether rows of a zone cannot, might, or must all match."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.expr.nodes import Predicate


class Match(IntEnum):
    """Of the rows of a zone: none is TRUE, some may be, all are."""

    CANNOT = 0
    MIGHT = 1
    MUST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneBounds:
    """Bounds of one column over many zones; all arrays have one entry a zone."""

    min: pa.Array
    max: pa.Array
    null_count: npt.NDArray[np.int64] | None = None
    nan_count: npt.NDArray[np.int64] | None = None
    num_rows: npt.NDArray[np.int64]


def classify(
    predicate: Predicate, bounds: Mapping[tuple[str, ...], ZoneBounds], num_zones: int
) -> npt.NDArray[np.int8]:
    """Return a `Match` for each zone. A column without bounds might hold anything."""
    raise NotImplementedError
