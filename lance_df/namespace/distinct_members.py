"""Whether members are in ``__manifest`` once each: others may have added rows that are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakSet

import pyarrow.compute as pc

from lance_df.errors import CorruptDataError
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import take_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.namespace.manifest_table import NamespaceManifest

_COLUMNS: Final = {"object_id": "the id", "location": "the folder"}
# If a scan needs one in so many, all are looked at, once for each version of a namespace.
_SHARE: Final = 2

_distinct: WeakSet[NamespaceManifest] = WeakSet()


def check_distinct(manifest: NamespaceManifest, positions: npt.NDArray[np.intp]) -> None:
    """Check that some members, by their positions in ``manifest.members``, are different tables.

    Others may be looked at, too.

    Raises
    ------
    CorruptDataError
        Two rows have one id or one folder: rows of that table would count twice.
    """
    if len(positions) < 2 or manifest in _distinct:
        return
    members = manifest.members.select(list(_COLUMNS))
    checks_all = len(members) <= NAMESPACE_LIMITS.current.few_rows or len(positions) * _SHARE >= len(members)
    rows = members if checks_all else take_rows(members, positions)
    for name, meaning in _COLUMNS.items():
        if pc.count_distinct(rows[name]).as_py() < len(rows):
            counts = pc.value_counts(rows[name].combine_chunks())
            twice = counts.filter(pc.greater(counts.field("counts"), 1))[0].as_py()
            raise CorruptDataError(
                f"{manifest.table.uri}: {twice['counts']} tables have {meaning} {twice['values']!r}, whose "
                "rows would count as often: another program has added a row; repair the namespace"
            )
    if checks_all:
        _distinct.add(manifest)
