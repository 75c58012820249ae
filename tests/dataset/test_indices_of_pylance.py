"""Indices that pylance made give pylance and us right answers after each change of ours to the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

QUERIES = ["k >= 15 AND k < 40", "k = 204", "a IN (1, 99)", "b = '4'"]


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"k": numbers, "a": [n % 7 for n in numbers], "b": [str(n % 11) for n in numbers]})


def upsert(dataset: Any) -> None:
    merge = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.table({"k": [17, 100], "a": [99, 3], "b": ["4", "x"]}))


def patch(dataset: Any) -> None:
    merge = dataset.merge_insert("k").when_matched_update_all().write_mode("rewrite_columns")
    merge.execute(pa.table({"k": [18, 31], "a": [99, 3]}))


def compact(dataset: Any) -> None:
    dataset.optimize.compact_files(materialize_deletions_threshold=0.0)


CHANGES: dict[str, Callable[[Any], object]] = {
    "delete": lambda dataset: dataset.delete("k IN (5, 6, 30)"),
    "update of a key": lambda dataset: dataset.update({"k": "k + 200"}, where="k IN (3, 4)"),
    "update": lambda dataset: dataset.update({"a": "99"}, where="k IN (15, 16)"),
    "upsert": upsert,
    "partial merge": lambda dataset: (
        dataset.merge_insert("k").when_matched_update_all().execute(pa.table({"k": [17, 33], "a": [99, 3]}))
    ),
    "columns": patch,
    "append": lambda dataset: lance_df.write_dataset(rows(60, 90), dataset, mode="append"),
    "compact": compact,
    "index again": lambda dataset: lance.dataset(dataset.uri).optimize.optimize_indices(),
    "delete after it": lambda dataset: dataset.delete("k IN (20, 70)"),
    "compact again": compact,
    "add": lambda dataset: dataset.add_columns({"c": "a + 1"}),
    "drop": lambda dataset: dataset.drop_columns(["c"]),
    "rename": lambda dataset: dataset.alter_columns({"path": "b", "name": "bb"}),
    "rename back": lambda dataset: dataset.alter_columns({"path": "bb", "name": "b"}),
    "restore": lambda dataset: lance_df.dataset(dataset.uri, version=4).restore(),
    "delete in it": lambda dataset: dataset.delete("k = 17"),
    "overwrite": lambda dataset: lance_df.write_dataset(rows(0, 30), dataset, mode="overwrite"),
}


def answer(dataset: Any, query: str, *, use_index: bool) -> list[str]:
    found = dataset.scanner(filter=query, use_scalar_index=use_index).to_table()
    return sorted(map(repr, found.to_pylist()))


@pytest.mark.parametrize(("version", "stable"), [("2.0", False), ("2.2", True)])
def test_answers_after_every_change(tmp_path: Path, version: str, stable: bool) -> None:
    uri = str(tmp_path / "t")
    made = lance.write_dataset(
        rows(0, 50), uri, max_rows_per_file=20, data_storage_version=version, enable_stable_row_ids=stable
    )
    for column, kind in (("k", "BTREE"), ("a", "BITMAP"), ("b", "BTREE")):
        made.create_scalar_index(column, kind)
    for name, change in CHANGES.items():
        change(lance_df.dataset(uri))
        theirs, ours = lance.dataset(uri), lance_df.dataset(uri)
        for query in QUERIES:
            if query[0] not in theirs.schema.names:
                continue
            expected = answer(theirs, query, use_index=False)
            assert answer(theirs, query, use_index=True) == expected, (name, query)
            assert answer(ours, query, use_index=True) == expected, (name, query)
    lance.dataset(uri).validate()


def test_trees_of_old_releases_are_not_used(tmp_path: Path) -> None:
    """Their files do not say how many rows a page has; that of 0.18 is called otherwise, too."""
    uri = str(tmp_path / "t")
    dataset = lance.write_dataset(rows(0, 60), uri)
    dataset.create_scalar_index("k", "BTREE")
    (file,) = (tmp_path / "t" / "_indices").glob("*/page_lookup.lance")
    data = file.read_bytes()
    assert data.count(b"batch_size") == 1
    file.write_bytes(data.replace(b"batch_size", b"batch_sizf"))
    for query, found in {"k = 17": [17], "k >= 57 AND k < 90": [57, 58, 59], "k = 204": []}.items():
        assert lance_df.dataset(uri).to_table(filter=query)["k"].to_pylist() == found
