"""Use a table in every way that reads it, and say what came of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lance_df
from lance_df.errors import LanceError
from lance_df.file import LanceFileReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_FILTERS = (
    "id > 20 AND id < 120",
    "small = 13",
    "real < 3.5",
    "word = 'bravo 1'",
    "tags IS NULL",
    "id IN (3, 5, 90)",
)


@dataclass(frozen=True)
class Outcome:
    """What a way of reading gave: a value that can be compared, or an error."""

    way: str
    value: Any = None
    error: LanceError | None = None


def exercise(
    path: Path, names: tuple[str, ...], wanted: Callable[[str], bool] = lambda _: True
) -> list[Outcome]:
    """Read a table, whose columns are (or were) `names`, in the ways that are wanted.

    Only `LanceError` is caught.
    """
    opened: list[Any] = []
    outcomes = [_try("open", lambda: opened.append(lance_df.dataset(path)))]
    if opened:
        (table,) = opened
        outcomes += [_try(way, run) for way, run in _ways(table, names).items() if wanted(way)]
    if wanted("sql"):
        outcomes.append(_try("sql", lambda: _sql(path, names)))
    return outcomes


def _ways(table: lance_df.LanceDataset, names: tuple[str, ...]) -> dict[str, Callable[[], Any]]:
    ways: dict[str, Callable[[], Any]] = {
        "schema": lambda: table.schema,
        "to_table": table.to_table,
        "count_rows": table.count_rows,
        "take": lambda: table.take([0, 7, 31]),
        "row_ids": lambda: table.to_table(columns=names[:1], with_row_id=True, with_row_address=True),
        "take_rows": lambda: table._take_rows([1, 40]),
        "list_indices": lambda: [(index["name"], index["type"]) for index in table.list_indices()],
        "versions": lambda: [version["version"] for version in table.versions()],
        "tags": lambda: sorted(table.tags.list()),
        "branches": lambda: sorted(table.branches.list()),
    }
    for text in _FILTERS:
        if text.split()[0] in names:
            ways[f"filter {text}"] = lambda text=text: table.to_table(filter=text)
            ways[f"count {text}"] = lambda text=text: table.count_rows(filter=text)
    return ways


def _sql(path: Path, names: tuple[str, ...]) -> Any:
    ctx = lance_df.SessionContext()
    lance_df.register(ctx, "t", str(path))
    first, last = names[0], names[-1]
    query = f'SELECT "{last}", count(*) AS n FROM t WHERE "{first}" > 30 GROUP BY "{last}" ORDER BY n, 1'
    return ctx.sql(query).to_arrow_table()


def read_file(path: Path) -> Outcome:
    """Read a data file on its own."""
    return _try("file", lambda: LanceFileReader(str(path)).read_all().to_table())


def _try(way: str, run: Callable[[], Any]) -> Outcome:
    try:
        return Outcome(way, run())
    except LanceError as err:
        return Outcome(way, error=err)
