"""The interface of the builders of all kinds of scalar indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lance_df.records import dataclass
from lance_df.table.indices.index_file import IndexFolder

if TYPE_CHECKING:
    from pyroaring import BitMap

    from lance_df.format.manifest import IndexMetadata
    from lance_df.format.schema import Field
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles


@dataclass(frozen=True, slots=True)
class SegmentContents:
    """The coverage of a segment in a version.

    Attributes
    ----------
    covered
        The fragments for which it has the current values of all live rows.
    held
        The fragments for which it has any rows, possibly with former values.
    """

    covered: BitMap
    held: BitMap


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """The contents of a new segment.

    Attributes
    ----------
    reused
        Segments, and the fragments whose rows are copied from them; each fragment at most once.
    scanned
        The fragments whose rows are read.
    template
        A segment of the index whose parameters the new one gets; None for a new index.
    rows_per_zone
        For a new index with zones; None for the default.
    """

    table: Table
    column: str
    field: Field
    name: str
    reused: tuple[tuple[IndexMetadata, BitMap], ...]
    scanned: BitMap
    template: IndexMetadata | None = None
    rows_per_zone: int | None = None

    @property
    def covered(self) -> BitMap:
        """The fragments that the segment covers."""
        covered = self.scanned.copy()
        for _, fragment_ids in self.reused:
            covered |= fragment_ids
        return covered


class IndexBuilder(Protocol):
    """Builds segments of one kind of index."""

    @property
    def kind(self) -> str:
        """The kind, as in `IndexMetadata.kind`."""
        ...

    @property
    def has_zones(self) -> bool:
        """Whether segments have one row for each zone (fast to read) rather than for each row."""
        ...

    def accepts(self, field: Field) -> bool:
        """Whether values of a field can be indexed."""
        ...

    def contents(self, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:
        """Return the coverage of a segment.

        Raises
        ------
        UnsupportedFeatureError
            The segment has a form that this release does not read.
        CorruptDataError
            A file is missing or damaged.
        """
        ...

    def build(self, request: BuildRequest, files: UncommittedFiles) -> IndexMetadata:
        """Write a segment; return its entry for a manifest."""
        ...


def segment_folder(table: Table, segment: IndexMetadata) -> IndexFolder:
    """Return the folder and the files of a segment."""
    return IndexFolder(table.index_location(segment), dict(segment.files))
