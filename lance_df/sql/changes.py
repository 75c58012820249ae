"""Parsed statements that change tables. Expressions and queries in them are parts of the statement's text."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

from lance_df.records import dataclass

Name: TypeAlias = tuple[str, ...]
"""Up to three normalised parts."""

Assignments: TypeAlias = tuple[tuple[str, str], ...]
"""Columns, and the expressions for their new values."""


class Verb(StrEnum):
    """The kind of a statement, as determined by its first words."""

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
    """The kind of a statement, and the table that it changes.

    Attributes
    ----------
    flags
        Optional words that the statement has: ``OR REPLACE``, ``IF EXISTS``, ``IF NOT EXISTS``,
        ``OVERWRITE``.
    unsupported
        The form of the statement and the alternative to use, if this form is not supported.
    """

    verb: Verb
    name: Name
    flags: frozenset[str] = frozenset()
    unsupported: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """``INSERT INTO name (columns) query``. Without columns, the query returns all of them.

    ``has_values`` states whether the query begins with ``VALUES``.
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
    """The rows to which a clause of a merge applies."""

    MATCHED = "MATCHED"
    NOT_MATCHED = "NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "NOT MATCHED BY SOURCE"


class MergeAction(StrEnum):
    """The action of a merge clause."""

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
        The assignments of an update or an insert.
    values
        The values of an insert without a list of columns: one for each column, in their order.
    takes_all
        Whether the action is ``UPDATE SET *`` or ``INSERT *``.
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
    """One partition field: a transform, its columns, and its numeric argument, if it has one."""

    transform: str
    columns: tuple[str, ...]
    number: int | None = None


@dataclass(frozen=True, slots=True)
class CreateTable:
    """``CREATE TABLE name (definitions) PARTITIONED BY (…) AS query``, with either definitions or a query."""

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
    """``ALTER TABLE name ADD COLUMN definition``. The definition begins with the name of the column."""

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
