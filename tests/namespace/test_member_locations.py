"""Rows of ``__manifest`` name folders below another folder, or with a slash at the end."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df import DirectoryNamespace, PartitionedNamespace
from lance_df.namespace.changes.publish import remove_unpublished
from lance_df.namespace.changes.staged import publish_staged_partitions, stage_partitions

NOW = dt.timedelta(0)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])

FORMS = pytest.mark.parametrize("form", ["{}/", "above/{}", "above/{}/"])


def rows(value: int) -> pa.Table:
    return pa.table({"k": [1, 2], "v": [value, value]}, SCHEMA)


def in_order(table: pa.Table) -> list[dict[str, int]]:
    return table.sort_by([("k", "ascending"), ("v", "ascending")]).to_pylist()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    PartitionedNamespace.create(tmp_path / "n", SCHEMA, ["identity(k)"]).append(rows(0))
    return tmp_path / "n"


def rename(root: Path, form: str) -> None:
    """Give all members another location, as another program may."""
    manifest = lance.dataset(root / "__manifest")
    (root / "above").mkdir()
    for row in manifest.to_table(filter="object_type = 'table'").to_pylist():
        new = form.format(row["location"])
        (root / row["location"]).rename(root / new)
        manifest.update({"location": f"'{new}'"}, where=f"object_id = '{row['object_id']}'")


@FORMS
def test_clean_up_keeps_what_versions_read(root: Path, form: str) -> None:
    rename(root, form)
    namespace = PartitionedNamespace.open(root)
    states = {}
    for _ in range(3):
        states[namespace.version] = in_order(namespace.to_table())
        namespace.update({"v": "v + 1"})
    first = min(states)
    namespace.cleanup_old_versions(NOW, retain_versions=3, delete_unverified=True)
    del states[first]
    for version, expected in states.items():
        assert in_order(PartitionedNamespace.open(root, version).to_table()) == expected
    assert lance_df.verify(root, deep=True).ok
    assert namespace.cleanup_old_versions(NOW).old_versions > 0


@FORMS
def test_staged_rows_are_published_in_existing_members(root: Path, form: str) -> None:
    rename(root, form)
    snapshot = PartitionedNamespace.open(root)._table
    staged = stage_partitions(snapshot.root, snapshot.manifest, SCHEMA, rows(1).to_batches(), "job")
    publish_staged_partitions(snapshot.root, snapshot.manifest, [staged])
    namespace = PartitionedNamespace.open(root)
    assert in_order(namespace.to_table()) == in_order(pa.concat_tables([rows(0), rows(1)]))
    assert len(namespace.partitions()) == 2


@FORMS
def test_only_folders_without_a_row_are_removed(root: Path, form: str) -> None:
    rename(root, form)
    snapshot = PartitionedNamespace.open(root)._table
    members = [member.location for member in snapshot.open_members([0, 1])]
    (root / "left").mkdir()
    remove_unpublished(snapshot.manifest, [*members, snapshot.root / "left"])
    assert not (root / "left").exists()
    assert len(PartitionedNamespace.open(root).to_table()) == 2


def test_directory_namespaces_deregister_tables(tmp_path: Path) -> None:
    lance_df.write_dataset(rows(0), tmp_path / "t.lance")
    namespace = DirectoryNamespace(tmp_path)
    namespace.register_table("t", "t.lance")
    lance.dataset(tmp_path / "__manifest").update({"location": "'t.lance/'"}, where="object_id = 't'")
    assert namespace.list_tables().tables == ["t"]
    namespace.deregister_table("t")
    assert namespace.list_tables().tables == []
