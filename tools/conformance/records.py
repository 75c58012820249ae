"""Read sqllogictest files: the statements in them, not the results that they expect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENGINE = "datafusion"


@dataclass(frozen=True, slots=True)
class Record:
    """A statement, and where it stands."""

    path: Path
    line: int
    sql: str

    @property
    def position(self) -> str:
        return f"{self.path}:{self.line}"


def read_records(path: Path) -> Iterator[Record]:
    """Yield the statements and queries of a file and of those that it includes, up to ``halt``.

    Records for other engines (``onlyif``, ``skipif``) are left out. Everything else that steers a runner has
    no meaning here.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    number, is_skipped = 0, False
    while number < len(lines):
        words = lines[number].split()
        number += 1
        match words:
            case ["halt", *_]:
                return
            case ["include", pattern, *_]:
                for included in sorted(path.parent.glob(pattern)):
                    yield from read_records(included)
            case ["onlyif", engine, *_]:
                is_skipped |= engine.lower() != ENGINE
            case ["skipif", engine, *_]:
                is_skipped |= engine.lower() == ENGINE
            case ["statement" | "query", *_]:
                first = number
                sql, number = _sql(lines, number)
                if not is_skipped:
                    yield Record(path, first, sql)
                is_skipped = False


def _sql(lines: list[str], number: int) -> tuple[str, int]:
    """Return the text that begins at a line, and the line behind the record."""
    first = number
    while number < len(lines) and lines[number].strip() and lines[number] != "----":
        number += 1
    sql = "\n".join(lines[first:number])
    while number < len(lines) and lines[number].strip():
        number += 1
    return sql, number


def split_statements(text: str) -> list[str]:
    """Return the statements of a text, which semicolons at the ends of lines part."""
    statements: list[str] = []
    lines: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("--"):
            continue
        lines.append(line)
        if line.rstrip().endswith(";"):
            statements.append("\n".join(lines))
            lines = []
    statements.append("\n".join(lines))
    return [stripped for each in statements if (stripped := each.strip().rstrip(";").strip())]
