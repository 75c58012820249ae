"""Which version of each member table the rows of ``__manifest`` publish.

Spec: partitioning, "Read Behavior".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.cache import TableCache
from lance_df.errors import CorruptDataError, VersionNotFoundError
from lance_df.namespace.directory.names import folder_at
from lance_df.namespace.manifest_rows import take_rows
from lance_df.records import dataclass
from lance_df.table.metadata.history import version_sources
from lance_df.table.metadata.refs import ResolvedRef, resolve
from lance_df.table.shared import Shared
from lance_df.table.table import open_ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_df.namespace.manifest_table import NamespaceManifest
    from lance_df.storage import ByteSource, Location
    from lance_df.table.table import Table

# Up to this many rows, single lookups are faster than gathering whole columns.
_FEW = 8
_COLUMNS = ("object_id", "location", "read_version", "read_branch", "read_tag")


@dataclass(frozen=True, slots=True)
class Member:
    """The table of a partition, and its published state.

    The state is a version of main or of a branch, or a tag. If none is given, it is the newest version of
    main.
    """

    object_id: str
    folder: Location
    version: int | None
    branch: str | None = None
    tag: str | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether the published state is a fixed version."""
        return self.version is not None

    @property
    def is_main_version(self) -> bool:
        """Whether a version of main is published, by its number."""
        return self.version is not None and self.branch is None and self.tag is None

    @property
    def follows_newest(self) -> bool:
        """Whether neither version, branch nor tag is given, so that readers take the newest version."""
        return self.version is None and self.branch is None and self.tag is None

    def resolve(self) -> ResolvedRef:
        """Return the branch and the version; if the member is not pinned, those of this moment.

        Raises
        ------
        VersionNotFoundError
            There is no such tag.
        CorruptDataError
            The row has a combination of version, branch and tag that is not allowed.
        """
        match self.version, self.branch, self.tag:
            case None, None, None:
                return ResolvedRef(None, None)
            case None, None, str(tag):
                return resolve(self.folder, tag, branch=None)
            case 0, _, None:
                raise CorruptDataError(
                    f"{self.folder.uri}: the row of {self.object_id} names version 0, but versions begin at "
                    "1; repair the namespace with publish_newer=True"
                )
            case int(version), branch, None:
                return ResolvedRef(branch, version)
            case _:
                raise CorruptDataError(
                    f"{self.folder.uri}: the row of {self.object_id} has a branch without a version, or a "
                    "tag together with a version or branch"
                )

    def open(self, cache: TableCache | None = None) -> Table:
        """Open the published version.

        Parameters
        ----------
        cache
            The cache of the table; by default a new one.

        Raises
        ------
        NotFoundError
            There is no such table, version or tag.
        """
        return open_ref(Shared(self.folder, cache=cache or TableCache()), self.resolve())

    @property
    def version_number(self) -> int:
        """The version of main that the member names."""
        if self.version is None or not self.is_main_version:
            raise TypeError("the member has no version of main")
        return self.version

    def version_of_main(self) -> int | None:
        """Return the version of main that is read, or None for a branch, which cannot be changed."""
        ref = self.resolve()
        if ref.branch is not None:
            return None
        return self.open().version if ref.version is None else ref.version


def manifest_sources(members: Sequence[Member]) -> Iterator[ByteSource]:
    """Open the manifest files of members that name versions of main.

    Raises
    ------
    NotFoundError
        There is no such table or version.
    """
    return version_sources([(member.folder, member.version_number) for member in members])


def members_at(root: Location, manifest: NamespaceManifest, positions: npt.NDArray[np.intp]) -> list[Member]:
    """Return members by their positions in ``manifest.members``.

    Raises
    ------
    CorruptDataError
        A member has no location, or a location outside the namespace.
    """
    if len(positions) <= _FEW:
        columns = [manifest.members.column(name) for name in _COLUMNS]
        rows = [tuple(column[position].as_py() for column in columns) for position in map(int, positions)]
        return [_member(root, manifest, *row) for row in rows]
    there, of_there = np.unique(positions, return_inverse=True)
    taken = take_rows(manifest.members.select(_COLUMNS), there)
    members = [
        _member(root, manifest, *row) for row in zip(*(each.to_pylist() for each in taken), strict=True)
    ]
    return [members[number] for number in of_there.tolist()]


def _member(
    root: Location,
    manifest: NamespaceManifest,
    name: str,
    location: str | None,
    version: int | None,
    branch: str | None,
    tag: str | None,
) -> Member:
    if location is None:
        raise CorruptDataError(f"{manifest.table.uri}: table {name} has no location")
    return Member(name, folder_at(root, location), version, branch, tag)


def are_pinned(manifest: NamespaceManifest) -> bool:
    """Whether all members name a version, so that they cannot change."""
    return manifest.members["read_version"].null_count == 0


def check_published(manifest: NamespaceManifest, path: str, committed_ns: int | None) -> None:
    """Check that a version of a member is not that of another namespace in the same folder.

    A version is committed before the namespace publishes it. If it is later, the clocks of writers differ, or
    the folder was replaced, for example by a backup. This takes a request only then. The versions of a folder
    that was copied or moved here may be earlier: this is noticed in local folders.

    Parameters
    ----------
    path, committed_ns
        The manifest file of the version, and its latest possible time of commit.

    Raises
    ------
    VersionNotFoundError
        The store no longer has the version of the namespace.
    """
    published_ns = manifest.table.manifest.timestamp_ns
    is_earlier = committed_ns is None or published_ns is None or committed_ns <= published_ns
    if is_earlier and manifest.is_unreplaced():
        return
    if not manifest.is_stored():
        raise VersionNotFoundError(
            f"{manifest.table.uri}: version {manifest.version} of the namespace no longer exists, and its "
            f"folder may have been replaced, so {path} may belong to another one; open the namespace again"
        )
