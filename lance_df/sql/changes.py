"""Statements that change tables, as data. Expressions and queries in them are text of the statement."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from lance_df.records import dataclass

Name: TypeAlias = tuple[str, ...]
"""Up to three parts, normalised."""

Assignments: TypeAlias = tuple[tuple[str, str], ...]
"""Columns, and the expressions of their new values."""


class Verb(StrEnum):
    """What a statement does, as far as its first words say."""

    INSERT = "INSERT"
    DELETE = "DELETE"
    UPDATE = "UPDATE"
    MERGE = "MERGE"
    TRUNCATE = "TRUNCATE"
    CREATE = "CREATE TABLE"
    DROP = "DROP TABLE"
    ALTER = "ALTER TABLE"


@dataclass(frozen=True, slots=True)
class Header:
    """What a statement does, and to which table.

    Attributes
    ----------
    flags
        Words that may be there or not: ``OR REPLACE``, ``IF EXISTS``, ``IF NOT EXISTS``, ``OVERWRITE``.
    unsupported
        The form of the statement, and what to use instead, where it is one that does not run.
    """

    verb: Verb
    name: Name
    flags: frozenset[str] = frozenset()
    unsupported: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT INTO name (columns) query``; without columns the query gives all of them.

    ``has_values`` where the query begins with ``VALUES``.
    """

    name: Name
    columns: tuple[str, ...] | None
    query: str
    has_values: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """``DELETE FROM name AS alias WHERE where``."""

    name: Name
    alias: str
    where: str | None


@dataclass(frozen=True, slots=True)
class Update:
    """``UPDATE name AS alias SET assignments FROM others WHERE where``."""

    name: Name
    alias: str
    assignments: Assignments
    others: str | None
    where: str | None


class RowKind(StrEnum):
    """Which rows a clause of a merge is about."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class MergeAction(StrEnum):
    """What a clause of a merge does."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"
    NOTHING = "DO NOTHING"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """``WHEN rows AND condition THEN action``.

    Attributes
    ----------
    assignments
        Of an update or an insert.
    values
        Of an insert without a list of columns: those of all columns, in their order.
    takes_all
        Whether it is ``UPDATE SET *`` or ``INSERT *``.
    """

    rows: RowKind
    condition: str | None
    action: MergeAction
    assignments: Assignments = ()
    values: tuple[str, ...] = ()
    takes_all: bool = False


@dataclass(frozen=True, slots=True)
class Merge:
    """``MERGE INTO name AS alias USING source AS source_alias ON condition clauses``."""

    name: Name
    alias: str
    source: str
    source_alias: str
    condition: str
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """``TRUNCATE TABLE name``."""

    name: Name


@dataclass(frozen=True, slots=True)
class PartitionTerm:
    """One partition field: a transform, its columns, and the number that it takes, if any."""

    transform: str
    columns: tuple[str, ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``CREATE TABLE name (definitions) PARTITIONED BY (…) AS query``: definitions or a query."""

    name: Name
    definitions: str | None
    partition_by: tuple[PartitionTerm, ...] | None
    query: str | None
    or_replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTable:
    """``DROP TABLE IF EXISTS name``."""

    name: Name
    if_exists: bool


@dataclass(frozen=True, slots=True)
class AddColumn:
    """``ALTER TABLE name ADD COLUMN definition``, which begins with the name of the column."""

    name: Name
    column: str
    definition: str
    if_not_exists: bool


@dataclass(frozen=True, slots=True)
class DropColumn:
    """``ALTER TABLE name DROP COLUMN column``."""

    name: Name
    column: str
    if_exists: bool


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """``ALTER TABLE name RENAME COLUMN column TO new``."""

    name: Name
    column: str
    new: str


@dataclass(frozen=True, slots=True)
class SetPartitionSpec:
    """``ALTER TABLE name SET PARTITION SPEC (…)``."""

    name: Name
    partition_by: tuple[PartitionTerm, ...]


Alteration: TypeAlias = AddColumn | DropColumn | RenameColumn | SetPartitionSpec
Change: TypeAlias = Insert | Delete | Update | Merge | Truncate | CreateTable | DropTable | Alteration
