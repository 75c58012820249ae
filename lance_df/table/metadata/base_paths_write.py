"""Check base paths that callers give: register them, choose them for new data files, and move them.

Spec: table format, base paths.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lance_df.arguments import checked_items, checked_text
from lance_df.errors import InvalidInputError
from lance_df.format.manifest import BasePath
from lance_df.records import dataclass
from lance_df.storage.schemes import is_chained
from lance_df.table.metadata.base_paths import DATA_DIR, BasePaths, DataTarget, check_distinct, path_for

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lance_df.storage import Location

_MAX_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class DatasetBasePath:
    """A folder for files of a table, outside the table's own root.

    Attributes
    ----------
    path
        An absolute path or a URL.
    name
        A name by which calls refer to the base path. They may use the path instead.
    is_dataset_root
        Whether files are in the folders of a table (``data``, …), or directly in the path.
    id
        The id of the base path. If it is not set, registration assigns one.
    """

    path: str
    name: str | None = None
    is_dataset_root: bool = False
    id: int | None = None

    def __post_init__(self) -> None:
        is_text = isinstance(self.path, str)
        if not is_text or not self.path or "\0" in self.path:
            raise InvalidInputError(f"a base path must be a path or a URL, got {self.path!r}")


def as_base_path(base: object) -> DatasetBasePath:
    """Convert one of pylance's base paths to this package's class.

    Raises
    ------
    InvalidInputError
        The object is not a base path.
    """
    if isinstance(base, DatasetBasePath):
        return base
    try:
        return DatasetBasePath(base.path, base.name, base.is_dataset_root, base.id)  # type: ignore[attr-defined]
    except AttributeError as err:
        raise InvalidInputError(f"expected a DatasetBasePath, got {type(base).__name__}") from err


def as_base_paths(bases: object, argument: str) -> tuple[DatasetBasePath, ...]:
    """Return an argument with base paths; see `as_base_path`."""
    return tuple(map(as_base_path, checked_items(bases, argument, "a list of DatasetBasePath objects")))


def as_base_names(bases: object, argument: str) -> tuple[str, ...]:
    """Return an argument with names or paths of base paths as text."""
    listed = checked_items(bases, argument, "a list of names or paths")
    return tuple(
        checked_text(os.fspath(each) if isinstance(each, os.PathLike) else each, f"an item of {argument}")
        for each in listed
    )


def checked_bases(
    given: Sequence[DatasetBasePath], registered: Sequence[BasePath], table: Location
) -> tuple[BasePath, ...]:
    """Check base paths that are to be registered, and make relative paths absolute.

    Returns
    -------
    The base paths. Those without an id have the id 0; the commit assigns one.

    Raises
    ------
    InvalidInputError
        An id, a name or a path is in use or invalid.
    """
    new = []
    taken = {base.id for base in registered}
    for each in given:
        base_id = each.id or 0
        if not 0 <= base_id <= _MAX_ID or (base_id and base_id in taken):
            raise InvalidInputError(
                f"base path {each.path}: the id {base_id} is invalid or already in use; the ids in use are "
                f"{sorted(taken)}"
            )
        taken.add(base_id)
        if is_chained(each.path):
            raise InvalidInputError(f"base path {each.path!r} must not be a chained URL")
        path = path_for(each.path, table, table)
        new.append(BasePath(id=base_id, path=path, is_dataset_root=each.is_dataset_root, name=each.name))
    check_distinct(registered, new)
    return tuple(new)


def numbered_bases(bases: Sequence[BasePath]) -> tuple[BasePath, ...]:
    """Assign ids from 1 to the base paths of a new table that have none."""
    taken = {base.id for base in bases}
    free = (number for number in range(1, len(bases) + 1) if number not in taken)
    return tuple(base if base.id else dataclasses.replace(base, id=next(free)) for base in bases)


def choose_targets(
    table: Location,
    bases: Sequence[BasePath],
    *,
    names: Sequence[str] | None,
    all_bases: bool | None,
) -> tuple[DataTarget, ...]:
    """Return the folders for the data files of a write, which are used in turn.

    Parameters
    ----------
    names
        Names or paths of base paths; without any, the table itself.
    all_bases
        If not ``None``, use all base paths in the order of their ids; if ``True``, after the table itself.

    Raises
    ------
    InvalidInputError
        There is no such base path, or both arguments are given.
    """
    default = DataTarget(table / DATA_DIR)
    folders = BasePaths(table, tuple(bases), source=table.uri)
    if all_bases is None:
        chosen = [_find(bases, name) for name in names or ()]
        return tuple(DataTarget(folders.data_folder(base.id), base.id) for base in chosen) or (default,)
    if names:
        raise InvalidInputError("target_bases and target_all_bases cannot be combined")
    ordered = sorted(bases, key=lambda base: base.id)
    targets = tuple(DataTarget(folders.data_folder(base.id), base.id) for base in ordered)
    if not targets and not all_bases:
        raise InvalidInputError(f"{table.uri}: target_all_bases requires at least one registered base path")
    return (default, *targets) if all_bases else targets


def moved_bases(bases: Sequence[BasePath], moves: Mapping[str, str], table: Location) -> tuple[BasePath, ...]:
    """Return the base paths that start with a key of ``moves``, with this prefix replaced by its value.

    If several prefixes match, the longest one counts. A prefix must end at the end of a path component.

    Raises
    ------
    InvalidInputError
        A prefix matches no base path, or a new path is invalid.
    """
    if not moves:
        raise InvalidInputError("no base path to move was given")
    prefixes = {_plain(old): (old, new) for old, new in moves.items()}
    used = set()
    moved = []
    for base in bases:
        path = _plain(base.path)
        fitting = [prefix for prefix in prefixes if path == prefix or path.startswith(f"{prefix}/")]
        if not fitting:
            continue
        longest = max(fitting, key=len)
        used.add(longest)
        new = prefixes[longest][1].rstrip("/") + path[len(longest) :]
        if not new or "\0" in new:
            raise InvalidInputError(f"base path {base.path} cannot be moved to {prefixes[longest][1]!r}")
        moved.append(dataclasses.replace(base, path=path_for(new, table, table)))
    if unused := prefixes.keys() - used:
        known = ", ".join(repr(base.path) for base in bases) or "none"
        wanted = prefixes[unused.pop()][0]
        raise InvalidInputError(
            f"{table.uri}: no base path begins with {wanted!r}; the base paths are: {known}"
        )
    return tuple(moved)


def _find(bases: Sequence[BasePath], wanted: str) -> BasePath:
    for base in bases:
        if wanted == base.name:
            return base
    for base in bases:
        if _plain(str(wanted)) == _plain(base.path):
            return base
    known = ", ".join(repr(base.name or base.path) for base in bases) or "none"
    raise InvalidInputError(f"base path {wanted!r} does not exist; the base paths are: {known}")


def _plain(path: str) -> str:
    """Return a path in one form, so that two spellings of the same path are equal."""
    return (unquote(path.removeprefix("file://")) if path.startswith("file://") else path).rstrip("/")
