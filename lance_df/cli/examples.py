"""Load the files of `sql_examples`, each with a title, a description and one SQL statement."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from lance_df.cli.shell.statements import split_statements
from lance_df.errors import InvalidInputError, NotFoundError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from typing import Self

_PACKAGE = Path(__file__).resolve().parents[1]
_HEADER = re.compile(r"^-- (title|shows): (.+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Example:
    """One example; ``sql`` has neither the header nor the semicolon."""

    name: str
    title: str
    shows: str
    sql: str

    @classmethod
    def parse(cls, name: str, text: str) -> Self:
        """Parse the text of a file.

        Raises
        ------
        InvalidInputError
            A header line is missing, or there is not exactly one statement.
        """
        header = dict(_HEADER.findall(text))
        statements = split_statements(_HEADER.sub("", text))
        if header.keys() != {"title", "shows"} or len(statements) != 1:
            raise InvalidInputError(f"{name}: expected '-- title:', '-- shows:' and one statement")
        return cls(name, header["title"], header["shows"], statements[0])


def load_examples(folder: Path | None = None) -> list[Example]:
    """Return the examples of a folder, by default those of this package, in the order of their names.

    Raises
    ------
    NotFoundError
        There are none.
    """
    folders = [folder] if folder else [_PACKAGE / "sql_examples", _PACKAGE.parent / "sql_examples"]
    for each in folders:
        if files := sorted(each.glob("*.sql")):
            return [Example.parse(path.stem, path.read_text(encoding="utf-8")) for path in files]
    raise NotFoundError(f"{folders[-1]}: no SQL examples found")
