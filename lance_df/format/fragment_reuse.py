"""The fragment reuse index: compactions that left the row addresses in other indices as they were.

pylance makes it in compactions with ``defer_index_remap``. Its readers translate the former addresses in each
index, and from the next commit on, an index covers the new fragments although its files have only former
addresses. The feature flag of later forms of it is not set. Spec: fragment reuse index.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pyroaring import BitMap

from lance_df._pb import table_pb2
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.messages import parse_message
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from lance_df.format.manifest import IndexMetadata

FRAGMENT_REUSE = "__lance_frag_reuse"
SYSTEM_PREFIX = "__lance_"
"""Prefix of the names of system indices, which belong to the table as a whole and have no fields."""

MovedGroup = tuple[BitMap, BitMap]
"""The ids of fragments that were rewritten together, and of the fragments that replace them."""


@dataclass(frozen=True, slots=True)
class FragmentReuse:
    """The compactions, oldest first: the version that each was computed from, and its groups."""

    compactions: tuple[tuple[int, tuple[MovedGroup, ...]], ...]

    @classmethod
    def parse(cls, entry: IndexMetadata, read: Callable[[IndexMetadata, str], bytes], *, source: str) -> Self:
        """Parse the entry of the index.

        Parameters
        ----------
        read
            Returns the content of a file of the index; long details are in a file.
        source
            The manifest, for messages.

        Raises
        ------
        UnsupportedFeatureError
            The index has a later form.
        CorruptDataError
            The details are damaged.
        """
        if entry.index_version:
            raise UnsupportedFeatureError(
                f"{source}: index {entry.name!r} has version {entry.index_version}, expected 0; a newer "
                "release may support it"
            )
        details = parse_message(
            table_pb2.FragmentReuse, entry.details, source=source, what=f"the details of {entry.name!r}"
        )
        content = details.inline
        if details.HasField("external"):
            file = details.external
            data = read(entry, file.path)[file.offset : file.offset + file.size]
            if len(data) != file.size:
                raise CorruptDataError(
                    f"{source}: file {file.path!r} of index {entry.name!r} has {len(data)} bytes from "
                    f"{file.offset} on, expected {file.size}"
                )
            content = parse_message(
                table_pb2.FragmentReuse.Content, data, source=source, what=f"file {file.path!r}"
            )
        elif not details.HasField("inline"):
            raise CorruptDataError(f"{source}: index {entry.name!r} has no details, expected compactions")
        return cls(
            tuple(
                (version.dataset_version, tuple(_group(group, source) for group in version.groups))
                for version in content.versions
            )
        )

    def advanced(self, index: IndexMetadata) -> IndexMetadata:
        """Replace the old fragments in the coverage of an index by the new ones, as pylance's commits do."""
        if index.name.startswith(SYSTEM_PREFIX):
            return index
        groups = [group for _, of_one in self.compactions for group in of_one]
        return covering(index, lambda covered: moved(covered, groups))

    def with_current_rows(self, index: IndexMetadata) -> IndexMetadata:
        """Limit the coverage of an index to the fragments whose row addresses it holds.

        An index that was built before a compaction holds former addresses of the rows in its new fragments.
        """
        if index.name.startswith(SYSTEM_PREFIX):
            return index
        former = BitMap.union(
            BitMap(),
            *(
                new
                for version, groups in self.compactions
                if index.dataset_version <= version
                for _, new in groups
            ),
        )
        return covering(self.advanced(index), lambda covered: covered - former)


def covering(index: IndexMetadata, change: Callable[[BitMap], BitMap]) -> IndexMetadata:
    """Change the coverage of an index; return the same object if it stays the same, or is unknown."""
    covered = index.covered_fragments()
    if covered is None:
        return index
    after = change(covered)
    return index if after == covered else dataclasses.replace(index, fragment_bitmap=after.serialize())


def moved(covered: BitMap, groups: Iterable[MovedGroup], *, keep: bool = True) -> BitMap:
    """Replace the old fragments of each group by its new ones, if all of the old ones were covered.

    Without ``keep``, the old ones are only removed.
    """
    after = BitMap(covered)
    for old, new in groups:
        whole = keep and bool(old) and old <= after
        after -= old
        if whole:
            after |= new
    return after


def _group(group: table_pb2.FragmentReuse.Group, source: str) -> MovedGroup:
    try:
        return (
            BitMap(each.id for each in group.old_fragments),
            BitMap(each.id for each in group.new_fragments),
        )
    except OverflowError as err:
        raise CorruptDataError(
            f"{source}: index {FRAGMENT_REUSE!r} names a fragment whose id has more than 32 bits"
        ) from err
