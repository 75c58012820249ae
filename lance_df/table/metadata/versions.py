"""Name manifest files, and find the versions of a table by listing these names.

Spec: table format, manifest names and finding the latest version.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from lance_df.errors import CorruptDataError, NotFoundError, UnsupportedFeatureError
from lance_df.records import dataclass
from lance_df.storage import Entry
from lance_df.storage.first_page import first_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lance_df.storage import ByteSource, Location

VERSIONS_DIR = "_versions"
VERSION_HINT = "latest_version_hint.json"
# a folder that contains a table with this name is the root of a namespace
NAMESPACE_MANIFEST = "__manifest"
DETACHED = 1 << 63

_MAX = 2**64 - 1
_NAME = re.compile(r"(d?)([0-9]+)\.manifest")
_SUFFIX = ".manifest"
_V2_DIGITS = 20
# names in one listing request; staged and temporary files may be among them
_PAGE = 100
_MAX_WHOLE_BYTES = 16 * 1024 * 1024
# attempts to list a local folder whose only manifests vanish while newer ones are made
_MAX_ATTEMPTS = 20


class NamingScheme(Enum):
    """How versions become file names; all versions of a table use the same scheme."""

    V1 = "V1"
    V2 = "V2"

    def file_name(self, version: int) -> str:
        """Return the name of the manifest of ``version``; both schemes name detached versions identically."""
        if version & DETACHED:
            return f"d{version}.manifest"
        if self is NamingScheme.V1:
            return f"{version}.manifest"
        # Numbers descend, so that the newest version comes first in a listing.
        return f"{_MAX - version:0{_V2_DIGITS}}.manifest"


def parse_manifest_name(name: str) -> tuple[int, NamingScheme] | None:
    """Return the version and the scheme, or None for temporary, staged and foreign files."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number = int(match[2]) if len(match[2]) <= _V2_DIGITS else _MAX + 1
    if number > _MAX:
        return None
    if match[1]:
        return (number, NamingScheme.V2) if number & DETACHED else None
    if len(match[2]) == _V2_DIGITS:
        return _MAX - number, NamingScheme.V2
    return number, NamingScheme.V1


@dataclass(frozen=True, slots=True)
class VersionListing:
    """The attached versions in a listing, in ascending order. The numbers may have gaps."""

    scheme: NamingScheme
    entries: Mapping[int, Entry]

    @property
    def latest(self) -> int | None:
        """The highest version, or None if there are no versions."""
        return max(self.entries, default=None)

    def describe(self) -> str:
        """Return the versions as text, for messages."""
        numbers = list(self.entries)
        if not numbers:
            return "there are no versions"
        if len(numbers) == numbers[-1] - numbers[0] + 1 and len(numbers) > 1:
            return f"the versions are {numbers[0]} to {numbers[-1]}"
        shown = ", ".join(map(str, numbers[-20:]))
        return f"the versions are {'…, ' if len(numbers) > 20 else ''}{shown}"


@dataclass(frozen=True, slots=True)
class LatestManifest:
    """A manifest file in a listing; ``size`` and ``mark`` are set on remote stores."""

    version: int
    scheme: NamingScheme
    size: int
    mark: str = ""

    def open(self, table: Location, known: ByteSource | None = None) -> ByteSource:
        """Open the file; return ``known`` without reading if it has the mark of the listing."""
        file = table / VERSIONS_DIR / self.scheme.file_name(self.version)
        if known is not None and self.mark and (known.path, known.mark) == (file.uri, self.mark):
            return known
        whole = table.is_local or self.size <= _MAX_WHOLE_BYTES
        source = file.open_whole() if whole else file.open_sized(self.size)
        source.mark = self.mark
        return source


def find_latest(table: Location) -> LatestManifest | None:
    """Find the manifest of the highest version; return None if there is none.

    On S3 and GCS this takes one request, however many versions there are, as new versions come first in the
    order of names. The file that hints at the latest version is not needed and may be wrong, so it is not
    read.

    Raises
    ------
    CorruptDataError
        There are names of both schemes; see :func:`list_versions`.
    """
    folder = table / VERSIONS_DIR
    if table.is_local:
        for _ in range(_MAX_ATTEMPTS):
            latest, is_certain = _find_latest_locally(table)
            if is_certain:
                break
        return latest
    try:
        page = first_files(folder, _PAGE)
    except NotFoundError:  # the bucket
        return None
    if page is not None:
        entries, is_complete = page
        latest = _latest(table, entries)
        if is_complete or (latest is not None and latest.scheme is NamingScheme.V2):
            return latest
    return _latest(table, (entry for entry in folder.list() if not entry.is_directory))


def _find_latest_locally(table: Location) -> tuple[LatestManifest | None, bool]:
    """Find the latest manifest by names alone, and check only files that may be it.

    Also return whether the answer is certain. It is not if there is no manifest, but names of manifests that
    are not files were listed: newer versions may have been made, and these removed, since then.
    """
    folder = table / VERSIONS_DIR
    names = folder.names()
    length = _V2_DIGITS + len(_SUFFIX)
    # thousands of names are compared without parsing; only names of another length are parsed
    others = [name for name in names if len(name) != length]
    newest = min(names, default=None)
    if newest is not None and not (len(newest) == length and _is_manifest(folder / newest)):
        # a temporary file, a folder, or a name of scheme V1
        candidates = sorted(set(names).difference(others))
        newest = next((name for name in candidates if _is_manifest(folder / name)), None)
    manifests = [name for name in others if _is_manifest(folder / name)]
    if newest is not None:
        manifests.append(newest)
    latest = _latest(table, (Entry(name, 0, False) for name in manifests))
    return latest, latest is not None or not any(map(_is_attached_name, names))


def _is_manifest(file: Location) -> bool:
    return _is_attached_name(file.name) and file.is_file()


def _is_attached_name(name: str) -> bool:
    parsed = parse_manifest_name(name)
    return parsed is not None and not parsed[0] & DETACHED


def _latest(table: Location, entries: Iterable[Entry]) -> LatestManifest | None:
    latest: LatestManifest | None = None
    for entry in entries:
        parsed = parse_manifest_name(entry.name)
        if parsed is None or parsed[0] & DETACHED:
            continue
        version, scheme = parsed
        if latest is not None and latest.scheme is not scheme:
            raise _mixed(table)
        if latest is None or version > latest.version:
            latest = LatestManifest(version, scheme, entry.size, entry.mark)
    return latest


def check_attached(version: int, table: str) -> None:
    """Check that a version can be followed by the next one.

    Raises
    ------
    UnsupportedFeatureError
        It is detached.
    """
    if version & DETACHED:
        raise UnsupportedFeatureError(
            f"{table}: version {version} is detached, so no version of the table can follow it; restore() it "
            "first, or commit with detached=True"
        )


def list_versions(table: Location) -> VersionListing:
    """List the versions of the table or branch at ``table``; the list is empty if there is no such folder.

    Raises
    ------
    CorruptDataError
        There are names of both schemes, which pylance refuses, too: one of the writers did not see the other.
    """
    folder = table / VERSIONS_DIR
    listing = _list_versions_once(table)
    for _ in range(_MAX_ATTEMPTS if table.is_local else 0):
        if listing.entries or not any(map(_is_attached_name, folder.names())):
            break
        # the listed ones vanished before they were checked, after newer ones were made
        listing = _list_versions_once(table)
    return listing


def _list_versions_once(table: Location) -> VersionListing:
    entries: dict[int, Entry] = {}
    schemes: set[NamingScheme] = set()
    for entry in (table / VERSIONS_DIR).list():
        parsed = None if entry.is_directory else parse_manifest_name(entry.name)
        if parsed is None or parsed[0] & DETACHED:
            continue
        entries[parsed[0]] = entry
        schemes.add(parsed[1])
    if len(schemes) > 1:
        raise _mixed(table)
    return VersionListing(schemes.pop() if schemes else NamingScheme.V2, dict(sorted(entries.items())))


def _mixed(table: Location) -> CorruptDataError:
    return CorruptDataError(
        f"{table.uri}/{VERSIONS_DIR}: manifests have names of both schemes, such as 1.manifest and "
        f"{NamingScheme.V2.file_name(1)}, so the latest version is ambiguous"
    )
