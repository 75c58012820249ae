"""Read the tags and branches of a table; both are stored at its root, whichever branch they belong to.

Spec: table format, tags and branches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote, unquote

from lance_df.errors import InvalidInputError, NotFoundError, VersionNotFoundError
from lance_df.format.refs import (
    MAIN,
    MAX_REF_BYTES,
    Branch,
    Tag,
    check_branch_name,
    check_tag_name,
)
from lance_df.records import dataclass, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.storage import Location

VersionRef: TypeAlias = int | str | tuple[str | None, int | None]
"""A version of the current branch, a tag, or (branch or None for main, version or None for its latest)."""

_TAGS = "_refs/tags"
_BRANCHES = "_refs/branches"
_EXTENSION = ".json"
# in the folder of the branch: deleted with it by pylance, and by a clean-up of the branch when it is old
_CLAIM = "_transactions/first-version.claim"

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ResolvedRef:
    """A branch (``None`` is main) and a version of it (``None`` is the latest)."""

    branch: str | None
    version: int | None


def list_tags(root: Location) -> dict[str, Tag]:
    """Return all tags by name."""
    return _read_all(root / _TAGS, Tag.from_json)


def list_branches(root: Location) -> dict[str, Branch]:
    """Return all branches but main by name."""
    return _read_all(root / _BRANCHES, Branch.from_json)


def branch_location(root: Location, branch: str | None) -> Location:
    """Return the location of the files of a branch; a branch is a table of its own except for the refs.

    Raises
    ------
    VersionNotFoundError
        The name is not allowed for a branch.
    """
    if branch is None or branch == MAIN:
        return root
    try:
        return root / f"tree/{check_branch_name(branch)}"
    except InvalidInputError as err:
        raise VersionNotFoundError(f"{root.uri}: branch {branch!r} does not exist: {err}") from err


def read_tag(root: Location, name: str) -> Tag:
    """Return one tag.

    Raises
    ------
    VersionNotFoundError
        There is none; the message lists those that exist.
    """
    try:
        file = tag_file(root, name)
        return Tag.from_json(file.read(max_bytes=MAX_REF_BYTES), source=file.uri)
    except (InvalidInputError, NotFoundError) as err:
        raise VersionNotFoundError(
            f"{root.uri}: tag {name!r} does not exist; {_existing('tags', _names(root / _TAGS))}"
        ) from err


def read_branch(root: Location, name: str) -> Branch:
    """Return where one branch other than main starts.

    Raises
    ------
    VersionNotFoundError
        There is none; the message lists those that exist.
    """
    try:
        file = branch_file(root, name)
        return Branch.from_json(file.read(max_bytes=MAX_REF_BYTES), source=file.uri)
    except (InvalidInputError, NotFoundError) as err:
        raise VersionNotFoundError(
            f"{root.uri}: branch {name!r} does not exist; {describe_branches(root)}"
        ) from err


def describe_branches(root: Location) -> str:
    """Return the names of the branches as text, for messages."""
    return _existing("branches", [MAIN, *_names(root / _BRANCHES)])


def tag_file(root: Location, tag: str) -> Location:
    """Return the file of a tag."""
    return _ref_file(root / _TAGS, check_tag_name(tag))


def branch_file(root: Location, branch: str) -> Location:
    """Return the file that says where a branch starts."""
    return _ref_file(root / _BRANCHES, check_branch_name(branch))


def branch_claim(root: Location, branch: str) -> Location:
    """Return the file by which a writer claims the name of a new branch."""
    return branch_location(root, branch) / _CLAIM


def resolve(root: Location, ref: VersionRef | None, *, branch: str | None) -> ResolvedRef:
    """Resolve a reference of a caller to a branch and a version.

    Parameters
    ----------
    branch
        The branch of a bare version number.

    Raises
    ------
    VersionNotFoundError
        There is no such tag.
    InvalidInputError
        ``ref`` is none of the forms of :data:`VersionRef`.
    """
    given: object = tuple(map(plain, ref)) if isinstance(ref, tuple) else plain(ref)
    match given:
        case None:
            return ResolvedRef(branch, None)
        case bool():
            raise InvalidInputError("a version must be a number, a tag or (branch, version), got a bool")
        case int() as version:
            return ResolvedRef(branch, version)
        case str() as tag_name:
            tag = read_tag(root, tag_name)
            return ResolvedRef(tag.branch, tag.version)
        case (None | str() as name, None | int() as version) if not isinstance(version, bool):
            return ResolvedRef(None if name == MAIN else name, version)
        case _:
            raise InvalidInputError(f"a version must be a number, a tag or (branch, version), got {ref!r}")


def _read_all(folder: Location, parse: Callable[..., R]) -> dict[str, R]:
    refs: dict[str, R] = {}
    for name in _names(folder):
        file = _ref_file(folder, name)
        try:
            refs[name] = parse(file.read(max_bytes=MAX_REF_BYTES), source=file.uri)
        except NotFoundError:
            continue  # deleted after it was listed
    return refs


def _ref_file(folder: Location, name: str) -> Location:
    return folder / f"{quote(name, safe='')}{_EXTENSION}"


def _names(folder: Location) -> list[str]:
    """Return the names of the refs in a folder; file names that are not UTF-8 are ignored."""
    return [
        unquote(entry.name.removesuffix(_EXTENSION))
        for entry in folder.list()
        if not entry.is_directory and entry.name.endswith(_EXTENSION) and _is_utf8(entry.name)
    ]


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _existing(what: str, names: Iterable[str]) -> str:
    listed = ", ".join(map(repr, names))
    return f"the {what} are {listed}" if listed else f"there are no {what}"
