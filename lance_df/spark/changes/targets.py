"""The tables whose rows are changed, which tasks open, and their distribution to tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lance_df.namespace.member import in_columns_of, open_member
from lance_df.records import dataclass
from lance_df.spark.opened import SourceRef
from lance_df.spark.pipeline.tasks import OPENING_BYTES, TASK_BYTES, shared_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lance_df.namespace.changes.draft import DraftMember
    from lance_df.namespace.spec.namespace_schema import NamespaceSchema
    from lance_df.storage import Location
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class MemberAt:
    """A version of a member, published or not."""

    folder: Location
    branch: str | None
    version: int

    @classmethod
    def of(cls, member: DraftMember) -> MemberAt:
        """Return the version of a member in a draft."""
        return cls(member.folder, member.branch, member.version)

    def open(self) -> Table:
        """Open the table."""
        return open_member(self.folder, self.version, self.branch)


@dataclass(frozen=True, slots=True)
class Targets:
    """A table, or members of a namespace, at fixed versions. A table is named by its position.

    Attributes
    ----------
    source
        The table or the namespace.
    schema
        The columns of the namespace; None for a single table, which has the position 0.
    """

    source: SourceRef
    members: tuple[MemberAt, ...] = ()
    schema: NamespaceSchema | None = None

    def open(self, number: int) -> Table:
        """Open one of the tables, with the columns of the namespace."""
        if self.schema is None:
            return self.source.open_table()
        return in_columns_of(self.schema, self.members[number].open())

    @property
    def numbers(self) -> range:
        """The positions of the tables."""
        return range(1 if self.schema is None else len(self.members))


@dataclass(frozen=True, slots=True)
class Piece:
    """Some fragments of one of the tables."""

    number: int
    fragment_ids: tuple[int, ...]
    num_bytes: int


Pieces: TypeAlias = "Sequence[Piece]"
"""The work of one task, in which each table occurs once."""


def share_out(tables: Iterable[tuple[int, Table]], num_workers: int) -> list[Pieces]:
    """Distribute the fragments of tables to tasks: small tables as a whole, large ones by fragment."""
    pieces = [piece for number, table in tables for piece in _pieces(number, table)]
    return [_united(task) for task in shared_out(pieces, num_workers)]


def _pieces(number: int, table: Table) -> list[Piece]:
    fragments = table.fragments
    ids, sizes = fragments.ids.tolist(), fragments.file_bytes.tolist()
    if sum(sizes) <= TASK_BYTES // 16:
        return [Piece(number, tuple(ids), sum(sizes) + OPENING_BYTES)] if ids else []
    return [Piece(number, (each,), size + OPENING_BYTES) for each, size in zip(ids, sizes, strict=True)]


def _united(pieces: Pieces) -> Pieces:
    """Unite the fragments of each table in one piece."""
    by_table: dict[int, list[Piece]] = {}
    for piece in pieces:
        by_table.setdefault(piece.number, []).append(piece)
    return [
        Piece(
            number,
            tuple(sorted(each for part in parts for each in part.fragment_ids)),
            sum(part.num_bytes for part in parts),
        )
        for number, parts in sorted(by_table.items())
    ]
