"""What is in the folder of a table or a namespace that no version refers to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance_df
from lance_df.table.open import open_table
from lance_df.table.writing.uncommitted import Attempt

if TYPE_CHECKING:
    from pathlib import Path


def leftovers(root: Path) -> list[str]:
    """Return the files that no version refers to, by their paths below a root."""
    if (root / "__manifest").is_dir():
        locations = lance_df.dataset(str(root / "__manifest")).to_table(["location"])["location"]
        known = {"__manifest", *locations.to_pylist()}
        found = [name.name for name in root.iterdir() if name.name not in known]
        members = [name for name in root.iterdir() if name.name in known]
        return sorted([*found, *(f"{each.name}/{name}" for each in members for name in _of_table(each))])
    return _of_table(root)


def _of_table(root: Path) -> list[str]:
    needed: set[str] = set()
    latest = open_table(str(root))
    for each in lance_df.dataset(str(root)).versions():
        table = latest.checkout(each["version"])
        needed |= {*Attempt(table.manifest, table.manifest_file.read_indices()).names()}
    found = []
    for path in root.rglob("*"):
        if path.is_dir() or (path.parent.name == "_versions" and not path.name.startswith(".")):
            continue
        if path.name not in needed and path.parent.name not in needed:
            found.append(str(path.relative_to(root)))
    return sorted(found)
