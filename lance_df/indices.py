"""What indices are made with: pylance's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class IndexConfig:
    """A kind of index and its parameters, for `LanceDataset.create_scalar_index`.

    Attributes
    ----------
    index_type
        As of `LanceDataset.create_scalar_index`, in letters of either case.
    parameters
        The options of this kind by their names: ``rows_per_zone`` of zone maps.
    """

    index_type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
