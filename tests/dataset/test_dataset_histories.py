"""Scans and takes of tables with a history give what pylance gives, at every version."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from table_histories import KINDS, SQL_AND_ARROW, history

import lance_df

SYSTEM = ["_rowid", "_rowaddr", "_rowoffset", "_row_created_at_version", "_row_last_updated_at_version"]


def random_scan(rng: random.Random, schema: pa.Schema, system: list[str]) -> dict[str, Any]:
    """Return arguments of `to_table`."""
    options: dict[str, Any] = {}
    names = [*schema.names, *system]
    if "point" in schema.names:
        names.append(f"point.{schema.field('point').type.field(0).name}")
    if rng.random() < 0.8:
        options["columns"] = rng.sample(names, rng.randint(1, 5))
    if rng.random() < 0.6:
        sql, arrow = rng.choice(SQL_AND_ARROW)
        options["filter"] = sql if rng.random() < 0.3 else arrow
    if rng.random() < 0.4:
        options["limit"] = rng.choice([0, 1, 7, 50, 1000])
    if rng.random() < 0.3:
        options["offset"] = rng.choice([0, 3, 60, 110, 1000])
    if rng.random() < 0.3:
        options["with_row_id"] = True
    if rng.random() < 0.3:
        options["with_row_address"] = True
    if rng.random() < 0.2:
        options["batch_size"] = rng.choice([1, 10, 64])
    return options


def check_scan(theirs: lance.LanceDataset, ours: lance_df.LanceDataset, options: dict[str, Any]) -> None:
    expected = theirs.to_table(**options)
    found = ours.to_table(**options)
    assert found.schema.equals(expected.schema, check_metadata=True), options
    assert found.equals(expected), options


def check_takes(theirs: lance.LanceDataset, ours: lance_df.LanceDataset, rng: random.Random) -> None:
    total = theirs.count_rows()
    assert ours.count_rows() == total == len(ours)
    indices = [rng.randrange(total) for _ in range(12)] + [0, total - 1, total - 1]
    assert ours.take(indices).equals(theirs.take(indices))
    columns = ["key", "_rowid"]
    assert ours.take(indices, columns).equals(theirs.take(indices, columns))
    ids = theirs.to_table(columns=["_rowid"])["_rowid"].to_pylist()
    chosen = [ids[index] for index in indices]
    assert ours._take_rows(chosen, columns).equals(theirs._take_rows(chosen, columns))


@pytest.mark.parametrize(("version", "stable"), KINDS)
def test_every_version_reads_as_pylance_reads_it(tmp_path: Path, version: str, stable: bool) -> None:
    rng = random.Random(f"{version} {stable}")
    # pylance cannot filter 0.1 tables and return the others
    system = SYSTEM[:2] if version == "legacy" else SYSTEM
    seen = 0
    for _, theirs in history(tmp_path / "t.lance", version, stable=stable):
        ours = lance_df.dataset(tmp_path / "t.lance")
        seen += 1
        assert ours.version == theirs.version
        check_scan(theirs, ours, {})
        deleted = {"with_row_id": True, "include_deleted_rows": True}
        check_scan(theirs, ours, deleted)
        check_scan(theirs, ours, {**deleted, "with_row_address": True})
        for _ in range(3):
            check_scan(theirs, ours, random_scan(rng, theirs.schema, system))
        for sql, arrow in SQL_AND_ARROW[:2]:
            assert ours.count_rows(sql) == ours.count_rows(arrow) == theirs.count_rows(sql)
        check_takes(theirs, ours, rng)
        for fragment, expected in zip(ours.get_fragments(), theirs.get_fragments(), strict=True):
            assert fragment.metadata.to_json() == expected.metadata.to_json()
            assert fragment.to_table(["key"], with_row_id=True).equals(
                expected.to_table(["key"], with_row_id=True)
            )
    assert seen >= 14
    check_old_versions(tmp_path / "t.lance")


def check_old_versions(folder: Path) -> None:
    latest = lance_df.dataset(folder)
    for info in lance.dataset(folder).versions():
        expected = lance.dataset(folder, version=info["version"]).to_table()
        assert latest.checkout_version(info["version"]).to_table().equals(expected)


def test_branches_tags_and_clones_read_as_pylance_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / "t.lance"
    steps = history(folder, "2.1", stable=True)
    for _ in range(4):
        _, theirs = next(steps)
    theirs.tags.create("golden", 2)
    branch = theirs.create_branch("side", 2)
    branch.delete("key < 20")
    branch.tags.create("aside", ("side", branch.version))
    theirs.shallow_clone(tmp_path / "clone.lance", "golden")
    clone = lance.dataset(tmp_path / "clone.lance")
    clone.delete("key > 200")
    ours = lance_df.dataset(folder)
    assert ours.tags.list() == theirs.tags.list()
    assert ours.tags.list_ordered() == theirs.tags.list_ordered()
    assert ours.tags.list_ordered("asc") == theirs.tags.list_ordered("asc")
    assert ours.branches.list() == theirs.branches.list()
    assert ours.branches.list_ordered() == theirs.branches.list_ordered()
    assert ours.tags.get_version("golden") == 2
    for ref in ("golden", "aside", ("side", None), ("side", 2), (None, 3), 1):
        expected = theirs.checkout_version(ref)
        found = ours.checkout_version(ref)
        assert (found.version, found.uri) == (expected.version, expected.uri)
        assert found.to_table(with_row_id=True).equals(expected.to_table(with_row_id=True))
    opened = lance_df.dataset(tmp_path / "clone.lance")
    assert opened.to_table(with_row_id=True).equals(clone.to_table(with_row_id=True))
    assert opened.take([0, 5, 5]).equals(clone.take([0, 5, 5]))
    assert opened.count_rows("small = 3") == clone.count_rows("small = 3")
