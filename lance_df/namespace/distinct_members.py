"""Check that ``__manifest`` has each member once: other programs may have added duplicate rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow.compute as pc

from lance_df.errors import CorruptDataError
from lance_df.namespace.directory.names import without_last_slash
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_rows import take_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.namespace.manifest_table import NamespaceManifest

_COLUMNS: Final = {"object_id": "the id", "location": "the folder"}
# If a scan needs at least one in so many, all members are checked, once for each version of a namespace.
_SHARE: Final = 2


def check_distinct(manifest: NamespaceManifest, positions: npt.NDArray[np.intp]) -> None:
    """Check that the members at some positions of ``manifest.members`` are different tables.

    Other members may be checked too.

    Raises
    ------
    CorruptDataError
        Two rows have the same id or folder, so that rows of that table would count twice.
    """
    if len(positions) < 2 or manifest.has_distinct_members:
        return
    members = manifest.members.select(list(_COLUMNS))
    checks_all = len(members) <= NAMESPACE_LIMITS.current.few_rows or len(positions) * _SHARE >= len(members)
    rows = members if checks_all else take_rows(members, positions)
    for name, meaning in _COLUMNS.items():
        values = without_last_slash(rows[name]) if name == "location" else rows[name]
        if pc.count_distinct(values).as_py() < len(rows):
            counts = pc.value_counts(values.combine_chunks())
            twice = counts.filter(pc.greater(counts.field("counts"), 1))[0].as_py()
            raise CorruptDataError(
                f"{manifest.table.uri}: {twice['counts']} tables have {meaning} {twice['values']!r}, so "
                "their rows would be read several times; another program added a row; repair the namespace"
            )
    if checks_all:
        manifest.has_distinct_members = True
