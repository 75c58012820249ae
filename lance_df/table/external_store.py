"""External manifest stores: which object holds a version, for stores that cannot put-if-absent.

Spec: table format, commit primitives; reader. A reader that follows the format to the letter finishes the
commit of a writer that died half-way: it copies the staged manifest to its final name and records that. Reads
of this package write nothing, so the staged manifest is read where it is. It is the same bytes: recording
it was what decided the commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lance_df.errors import CorruptDataError, NotFoundError
from lance_df.table.versions import VERSIONS_DIR, NamingScheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.storage import ByteSource, Location


@dataclass(frozen=True, slots=True)
class StoredManifest:
    """What an external store knows about one version.

    Attributes
    ----------
    version
        The version.
    path
        Path in the bucket: of the final manifest file, or of a staged one (``{final name}-{uuid}``).
    size
        Bytes in it; ``None`` when not recorded.
    """

    version: int
    path: str
    size: int | None = None


class ExternalManifestStore(Protocol):
    """A strongly consistent map from (table, version) to manifest file.

    ``base_uri`` is the path of the table (or branch) without scheme, bucket and leading slash.
    """

    def get(self, base_uri: str, version: int) -> StoredManifest | None:
        """Return what is known about one version, or None."""
        ...

    def get_latest(self, base_uri: str) -> StoredManifest | None:
        """Return the highest version that is known, or None."""
        ...


def store_key(table: Location) -> str:
    """Return the ``base_uri`` under which a table is kept."""
    path = table.path.rstrip("/")
    return path.lstrip("/") if path.startswith("/") else path.partition("/")[2]


def open_stored(table: Location, stored: StoredManifest) -> ByteSource:
    """Open the manifest file that an external store names.

    Raises
    ------
    CorruptDataError
        The store names a file of another table, or one that is gone or has another size.
    """
    prefix = f"{store_key(table)}/{VERSIONS_DIR}/"
    path = stored.path.lstrip("/")
    if not path.startswith(prefix):
        raise CorruptDataError(
            f"{table.uri}: the external store names {stored.path!r} for version {stored.version}, "
            f"which is not in {VERSIONS_DIR}"
        )
    # Another client may finish the commit, and delete the staged file, at any time.
    finals = [scheme.file_name(stored.version) for scheme in (NamingScheme.V2, NamingScheme.V1)]
    source = _first(table / VERSIONS_DIR, [path.removeprefix(prefix), *finals])
    if source is None:
        raise CorruptDataError(
            f"{table.uri}: the manifest {stored.path!r} that the external store names for version "
            f"{stored.version} does not exist"
        )
    if stored.size is not None and source.size != stored.size:
        raise CorruptDataError(f"{source.path}: {source.size} bytes, the external store says {stored.size}")
    return source


def _first(folder: Location, names: Sequence[str]) -> ByteSource | None:
    for name in names:
        try:
            return folder.child(name).open()
        except NotFoundError:
            continue
    return None
