"""Statements that neither lance_df nor DataFusion runs, and their alternatives."""

from __future__ import annotations

from typing import Final

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.sql.before_statements import take_explain, take_prepare, take_semicolons
from lance_df.sql.token_reader import TokenReader, token_reader

_CLEANUP: Final = "LanceDataset.cleanup_old_versions or PartitionedNamespace.cleanup_old_versions"
_COMPACT: Final = "LanceDataset.optimize.compact_files or PartitionedNamespace.compact"
_TRANSACTION: Final = (
    "PartitionedNamespace.transaction, which makes several changes one commit; every statement is a commit"
)
_RESTORE: Final = "LanceDataset.restore"
_HISTORY: Final = 'LanceDataset.versions, PartitionedNamespace.versions, or "t$history" of a namespace t'
_OF_HISTORY: Final = ("DESCRIBE", "HISTORY")
_OR_ALTER: Final = ("CREATE", "OR", "ALTER", "TABLE")
_IN_MEMORY: Final = "CREATE VIEW, or SessionContext.from_arrow for a table in memory"
_REFUSED: Final[dict[tuple[str, ...], str]] = {
    ("CREATE", "INDEX"): "LanceDataset.create_scalar_index",
    ("CREATE", "UNIQUE", "INDEX"): "LanceDataset.create_scalar_index",
    ("DROP", "INDEX"): "LanceDataset.drop_index",
    ("CREATE", "TEMP", "TABLE"): _IN_MEMORY,
    ("CREATE", "TEMPORARY", "TABLE"): _IN_MEMORY,
    ("CREATE", "OR", "REPLACE", "TEMP", "TABLE"): _IN_MEMORY,
    ("CREATE", "OR", "REPLACE", "TEMPORARY", "TABLE"): _IN_MEMORY,
    _OR_ALTER: "CREATE OR REPLACE TABLE",
    ("INSERT", "OR"): "MERGE INTO",
    ("REPLACE", "INTO"): "MERGE INTO",
    ("UPSERT",): "MERGE INTO",
    ("VACUUM",): _CLEANUP,
    ("OPTIMIZE",): _COMPACT,
    ("BEGIN",): _TRANSACTION,
    ("START", "TRANSACTION"): _TRANSACTION,
    ("COMMIT",): _TRANSACTION,
    ("ROLLBACK",): _TRANSACTION,
    ("RESTORE",): _RESTORE,
    _OF_HISTORY: _HISTORY,
    ("COMMENT", "ON"): "LanceDataset.update_metadata or LanceDataset.update_field_metadata",
}
_QUERIES: Final = ("SELECT", "WITH", "FROM", "(")


@dataclass(frozen=True, slots=True)
class Refused:
    """A statement that is refused.

    Attributes
    ----------
    form
        The first words of the statement.
    instead
        The alternative. None if the statement runs, but not in a read-only session.
    is_for_folders
        Whether DataFusion runs the statement in sessions without a folder.
    """

    form: str
    instead: str | None
    is_for_folders: bool = False


def parse_refused(text: str) -> Refused | None:
    """Return a refused statement that `parse_header` does not know; None for statements that are not refused.

    >>> parse_refused("VACUUM trips").form
    'VACUUM'
    """
    reader = token_reader(text)
    if reader is None:
        return None
    take_semicolons(reader)
    try:
        while take_explain(reader) or take_prepare(reader):
            pass
    except InvalidInputError:
        return None  # DataFusion reports the error
    return _refused(reader)


def _refused(reader: TokenReader) -> Refused | None:
    for words, instead in _REFUSED.items():
        # a table may have the name history
        if reader.at(*words) and not (words == _OF_HISTORY and reader.is_at_end_after(len(words))):
            return Refused(" ".join(words), instead, is_for_folders=words == _OR_ALTER)
    for words in (("COPY",), ("CREATE", "SCHEMA"), ("DROP", "SCHEMA")):
        if reader.at(*words):
            return Refused(" ".join(words), None)
    if any(reader.at(word) for word in _QUERIES) and _selects_into(reader):
        return Refused("SELECT … INTO", "CREATE TABLE … AS SELECT", is_for_folders=True)
    return None


def _selects_into(reader: TokenReader) -> bool:
    former: str | None = None
    while not reader.is_at_end():
        word = reader.next_word()
        if word == "INTO" and former not in (".", "AS"):
            return True
        former = word
        reader.skip()
    return False
