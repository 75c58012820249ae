"""Which partitions a predicate leaves: those that no version of the spec proves to hold no match.

Spec: partitioning, "Partition Pruning". Every spec version is judged by its own fields; what a spec does not
say keeps a partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import CorruptDataError
from lance_df.expr.bounds import Match, classify
from lance_df.expr.nodes import Predicate
from lance_df.namespace.implied import with_implied
from lance_df.namespace.names import SEPARATOR
from lance_df.namespace.partition_bounds import partition_bounds

if TYPE_CHECKING:
    from lance_df.namespace.manifest_table import NamespaceManifest


def judged_members(manifest: NamespaceManifest, predicate: Predicate) -> npt.NDArray[np.int8]:
    """Return a `Match` for each row of ``manifest.members``: whether none of its rows, or all, satisfy.

    Parameters
    ----------
    predicate
        On columns of the namespace's schema; it may hold `Unknown`.

    Raises
    ------
    CorruptDataError
        A member belongs to no spec version.
    """
    members = manifest.members
    found = np.full(len(members), Match.MIGHT, dtype=np.int8)
    of_spec = spec_numbers(manifest)
    for spec in manifest.specs:
        places = np.flatnonzero(of_spec == spec.id)
        if not len(places):
            continue
        rows = members.take(places)
        values = {field.column: pa.concat_arrays(rows[field.column].chunks) for field in spec.fields}
        bounds = partition_bounds(spec, manifest.schema, values)
        expanded = with_implied(predicate, spec, manifest.schema)
        found[places] = classify(expanded, bounds, len(places))
    return found


def spec_numbers(manifest: NamespaceManifest) -> npt.NDArray[np.int64]:
    """Return the number of the spec version of each row of ``manifest.members``.

    Raises
    ------
    CorruptDataError
        A member belongs to no version that there is.
    """
    names = pc.list_element(pc.split_pattern(manifest.members["object_id"], SEPARATOR, max_splits=1), 0)
    known = {spec.name: spec.id for spec in manifest.specs}
    distinct = names.unique().to_pylist()
    unknown = [name for name in distinct if name not in known]
    if unknown:
        raise CorruptDataError(
            f"{manifest.table.uri}: there is a table below {unknown[0]!r}, but no such spec version"
        )
    numbers = np.zeros(len(names), dtype=np.int64)
    for name in distinct:
        numbers[pc.equal(names, name).to_numpy(zero_copy_only=False)] = known[name]
    return numbers
