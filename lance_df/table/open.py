"""Open a table: from a URI and a version, tag, branch or time to one immutable :class:`Table`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.table.table import Table

if TYPE_CHECKING:
    import datetime
    import os
    from collections.abc import Mapping

    from lance_df.table.external_store import ExternalManifestStore


def open_table(
    uri: str | os.PathLike[str],
    *,
    version: int | str | tuple[str | None, int | None] | None = None,
    branch: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    asof: datetime.datetime | None = None,
    external_store: ExternalManifestStore | None = None,
) -> Table:
    """Open one version of a table."""
    raise NotImplementedError
