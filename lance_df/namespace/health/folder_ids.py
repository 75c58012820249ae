"""The ids of tables, as the names of their folders say."""

from __future__ import annotations

import pyarrow as pa

from lance_df.namespace.health.orphans import is_id_of_folder, member_of_folder
from lance_df.namespace.health.row_tables import with_column
from lance_df.namespace.manifest_table import TABLE


def as_folders_say(incomplete: pa.Table, complete: pa.Table) -> tuple[pa.Table, dict[str, str]]:
    """Return rows, those of tables with the ids that their folders tell, and by these the ids that they had.

    Where a row that is as it should be has the id, it stays what it is, as does one with another id that the
    folder may have.
    """
    taken = set(complete["object_id"].to_pylist())
    ids, types = incomplete["object_id"].to_pylist(), incomplete["object_type"].to_pylist()
    renamed: dict[str, str] = {}
    for place, location in enumerate(incomplete["location"].to_pylist()):
        name = None if location is None else member_of_folder(location)
        if location is not None and name is not None and name not in taken:
            if is_id_of_folder(ids[place], location):
                name = ids[place]
            if ids[place] != name:
                renamed[name] = ids[place]
            ids[place], types[place] = name, TABLE
            taken.add(name)
    rows = with_column(incomplete, "object_id", pa.array(ids, pa.string()))
    return with_column(rows, "object_type", pa.array(types, pa.string())), renamed
