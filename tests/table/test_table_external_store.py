"""External manifest stores: staged, final and lost manifests; reads that leave everything as it is."""

from __future__ import annotations

import os
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from lance_df import write_dataset
from lance_df.errors import CorruptDataError, StorageError, VersionNotFoundError
from lance_df.table.metadata.external_store import StoredManifest
from lance_df.table.metadata.versions import NamingScheme
from lance_df.table.open import open_table


class DictStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, int], StoredManifest] = {}

    def add(self, table: Path | str, version: int, name: str, size: int | None = None) -> None:
        self.items[str(table), version] = StoredManifest(version, name, size)

    def get(self, table: str, version: int) -> StoredManifest | None:
        return self.items.get((table, version))

    def get_latest(self, table: str) -> StoredManifest | None:
        versions = [version for key, version in self.items if key == table]
        return self.items[table, max(versions)] if versions else None

    def put_if_absent(self, table: str, manifest: StoredManifest) -> bool:
        return self.items.setdefault((table, manifest.version), manifest) is manifest

    def put_if_exists(self, table: str, manifest: StoredManifest) -> bool:
        if (table, manifest.version) not in self.items:
            return False
        self.items[table, manifest.version] = manifest
        return True

    def delete(self, table: str, version: int | None = None) -> None:
        for key in [key for key in self.items if key[0] == table and version in (None, key[1])]:
            del self.items[key]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        rows = pa.table({"a": range(number)})
        lance.write_dataset(rows, tmp_path / "t.lance", mode="overwrite")
    return tmp_path / "t.lance"


def final(table: Path, version: int) -> Path:
    return table / "_versions" / NamingScheme.V2.file_name(version)


def staged(table: Path, version: int) -> str:
    """Give the manifest of a version a staged name and return that."""
    file = final(table, version)
    return file.rename(file.with_name(f"{file.name}-4d1c6c8e-6f0a-4d0c-9f62-2a57c6a1a0d0")).name


def everything(table: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_a_staged_manifest_is_read_where_it_is(table: Path):
    store = DictStore()
    store.add(table, 3, staged(table, 3), None)
    before, items = everything(table), dict(store.items)
    ours = open_table(table, external_store=store)
    assert (ours.version, ours.count_rows(), ours.latest_version()) == (3, 3, 3)
    assert [each["version"] for each in ours.versions()] == [1, 2, 3]
    assert ours.checkout(3).count_rows() == 3
    assert ours.latest() is ours
    assert (everything(table), store.items) == (before, items)
    # A reader that does not know of the store is one version behind.
    assert open_table(table).version == 2


@pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")
def test_links_lead_to_one_table(table: Path, tmp_path: Path):
    link = tmp_path / "link.lance"
    link.symlink_to(table)
    store = DictStore()
    # recorded by a former release, under the path that was given
    store.add(link, 3, staged(table, 3), None)
    rows = pa.table({"a": [0]})
    for path in (link, table, link):
        write_dataset(rows, path, mode="append", external_store=store)
    for path in (link, table):
        assert open_table(path, external_store=store).version == 6
    assert store.items.keys() == {(str(link), 3), *((str(table), version) for version in (4, 5, 6))}
    assert all(each.is_final for each in store.items.values())


def test_a_final_manifest(table: Path):
    store = DictStore()
    path = final(table, 3)
    store.add(table, 3, path.name, path.stat().st_size)
    assert open_table(table, external_store=store).version == 3
    store.add(table, 3, path.name, path.stat().st_size + 1)
    with pytest.raises(CorruptDataError, match="the external manifest store says"):
        open_table(table, external_store=store)


def test_the_store_decides_what_is_the_latest(table: Path):
    store = DictStore()
    store.add(table, 2, final(table, 2).name)
    assert open_table(table, external_store=store).version == 2


def test_versions_that_the_store_does_not_know_are_listed(table: Path):
    store = DictStore()
    assert open_table(table, external_store=store).version == 3
    store.add(table, 3, staged(table, 3))
    assert open_table(table, external_store=store, version=1).count_rows() == 1
    with pytest.raises(VersionNotFoundError, match="version 9 does not exist"):
        open_table(table, external_store=store, version=9)


def test_a_staged_manifest_that_another_client_has_finished(table: Path):
    store = DictStore()
    store.add(table, 3, f"{final(table, 3).name}-gone")
    assert open_table(table, external_store=store).version == 3


def test_a_manifest_that_is_nowhere(table: Path):
    store = DictStore()
    store.add(table, 4, f"{final(table, 4).name}-gone")
    with pytest.raises(CorruptDataError, match="does not exist"):
        open_table(table, external_store=store)


def test_a_version_that_is_gone(table: Path):
    store = DictStore()
    store.add(table, 2, final(table, 2).name)
    store.add(table, 3, final(table, 3).name)
    final(table, 2).unlink()
    with pytest.raises(VersionNotFoundError, match="does not exist"):
        open_table(table, external_store=store, version=2)
    assert [each["version"] for each in open_table(table, external_store=store).versions()] == [1, 3]


@pytest.mark.parametrize(
    "name",
    ["", "x.manifest", "../data/{name}", "{name}/../../x", "{name}-a/../b", "{name}x", "2.manifest", ".."],
)
def test_a_store_cannot_lead_elsewhere(table: Path, name: str):
    store = DictStore()
    store.add(table, 3, name.format(name=final(table, 3).name))
    with pytest.raises(CorruptDataError, match="the external manifest store has the invalid name"):
        open_table(table, external_store=store)


def test_branches_have_keys_of_their_own(table: Path):
    branch = lance.dataset(table).create_branch("b/c", 2)
    lance.write_dataset(pa.table({"a": range(7)}), branch, mode="append")
    store = DictStore()
    store.add(table, 3, final(table, 3).name)
    folder = table / "tree" / "b" / "c"
    store.add(folder, 3, staged(folder, 3))
    assert open_table(table, external_store=store).count_rows() == 3
    assert open_table(table, external_store=store, version=("b/c", None)).count_rows() == 9


def test_a_store_that_fails_is_an_error(table: Path):
    class Broken(DictStore):
        def get_latest(self, table: str) -> StoredManifest | None:
            raise ConnectionError("with a secret")

    with pytest.raises(StorageError, match="external manifest store") as caught:
        open_table(table, external_store=Broken())
    assert "secret" not in str(caught.value)
