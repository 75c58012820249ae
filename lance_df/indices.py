"""Configurations of indices, with the names of pylance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class IndexConfig:
    """The type of an index and its parameters, for `LanceDataset.create_scalar_index`.

    Attributes
    ----------
    index_type
        A type of `LanceDataset.create_scalar_index`, in upper or lower case.
    parameters
        The options of this type by name, such as ``rows_per_zone`` for zone maps.
    """

    index_type: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
