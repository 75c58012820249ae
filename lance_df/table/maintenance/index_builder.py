"""What the builders of all kinds of scalar indices have in common."""

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
    """What a segment knows of the fragments of a version.

    Attributes
    ----------
    covered
        Those of whose live rows it has the values.
    held
        Those of which it has rows at all, with former values perhaps.
    """

    covered: BitMap
    held: BitMap


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What a new segment is to hold.

    Attributes
    ----------
    reused
        Segments, and the fragments of which their rows are taken over; each fragment once at most.
    scanned
        The fragments whose rows are read.
    template
        A segment of the index that the new one is like; None for a new index.
    rows_per_zone
        Of a new index, where it has zones; None for the default.
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
        """The kind, as `IndexMetadata.kind` has it."""
        ...

    @property
    def has_zones(self) -> bool:
        """Whether segments have a row for each zone, which is read quickly, and not for each row."""
        ...

    def accepts(self, field: Field) -> bool:
        """Whether values of a field can be indexed."""
        ...

    def contents(self, table: Table, field: Field, segment: IndexMetadata) -> SegmentContents:
        """Return what a segment knows.

        Raises
        ------
        UnsupportedFeatureError
            It is of a form that is not read here.
        CorruptDataError
            A file is missing or damaged.
        """
        ...

    def build(self, request: BuildRequest, files: UncommittedFiles) -> IndexMetadata:
        """Write a segment, and return its entry for a manifest."""
        ...


def segment_folder(table: Table, segment: IndexMetadata) -> IndexFolder:
    """Return the files of a segment."""
    return IndexFolder(table.index_location(segment), dict(segment.files))
