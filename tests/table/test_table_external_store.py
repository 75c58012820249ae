"""External manifest stores: staged, final and lost manifests; reads that leave everything as it is."""

from __future__ import annotations

from pathlib import Path

import fsspec
import lance
import pyarrow as pa
import pytest

from lance_df.errors import CorruptDataError, UnsupportedFeatureError, VersionNotFoundError
from lance_df.storage import open_location
from lance_df.table.external_store import StoredManifest, store_key
from lance_df.table.open import open_table
from lance_df.table.versions import NamingScheme


class DictStore:
    """A store in memory."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, int], StoredManifest] = {}

    def add(self, key: str, version: int, path: str, size: int | None = None) -> None:
        self.items[key, version] = StoredManifest(version, path, size)

    def get(self, base_uri: str, version: int) -> StoredManifest | None:
        return self.items.get((base_uri, version))

    def get_latest(self, base_uri: str) -> StoredManifest | None:
        versions = [version for key, version in self.items if key == base_uri]
        return self.items[base_uri, max(versions)] if versions else None


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for number in (1, 2, 3):
        rows = pa.table({"a": range(number)})
        lance.write_dataset(rows, tmp_path / "t.lance", mode="overwrite")
    return tmp_path / "t.lance"


def final(table: Path, version: int) -> Path:
    return table / "_versions" / NamingScheme.V2.file_name(version)


def key(table: Path) -> str:
    return str(table).lstrip("/")


def staged(table: Path, version: int) -> str:
    """Rename the manifest of a version to a staged name and return its path in the store."""
    file = final(table, version)
    target = file.with_name(f"{file.name}-4d1c6c8e-6f0a-4d0c-9f62-2a57c6a1a0d0")
    file.rename(target)
    return str(target).lstrip("/")


def everything(table: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}


def test_a_staged_manifest_is_read_where_it_is(table: Path):
    store = DictStore()
    store.add(key(table), 3, staged(table, 3), None)
    before, items = everything(table), dict(store.items)
    ours = open_table(table, external_store=store)
    assert (ours.version, ours.count_rows(), ours.latest_version()) == (3, 3, 3)
    assert [each["version"] for each in ours.versions()] == [1, 2, 3]
    assert ours.checkout(3).count_rows() == 3
    assert ours.latest() is ours
    assert (everything(table), store.items) == (before, items)
    # A reader that does not know of the store is one version behind.
    assert open_table(table).version == 2


def test_a_final_manifest(table: Path):
    store = DictStore()
    path = final(table, 3)
    store.add(key(table), 3, str(path).lstrip("/"), path.stat().st_size)
    assert open_table(table, external_store=store).version == 3
    store.add(key(table), 3, str(path).lstrip("/"), path.stat().st_size + 1)
    with pytest.raises(CorruptDataError, match="the external store says"):
        open_table(table, external_store=store)


def test_the_store_decides_what_is_the_latest(table: Path):
    store = DictStore()
    store.add(key(table), 2, str(final(table, 2)).lstrip("/"))
    assert open_table(table, external_store=store).version == 2


def test_versions_that_the_store_does_not_know_are_listed(table: Path):
    store = DictStore()
    assert open_table(table, external_store=store).version == 3
    store.add(key(table), 3, staged(table, 3))
    assert open_table(table, external_store=store, version=1).count_rows() == 1
    with pytest.raises(VersionNotFoundError, match="no version 9"):
        open_table(table, external_store=store, version=9)


def test_a_staged_manifest_that_another_client_has_finished(table: Path):
    store = DictStore()
    store.add(key(table), 3, f"{key(table)}/_versions/{final(table, 3).name}-gone")
    assert open_table(table, external_store=store).version == 3


def test_a_manifest_that_is_nowhere(table: Path):
    store = DictStore()
    store.add(key(table), 4, f"{key(table)}/_versions/{final(table, 4).name}-gone")
    with pytest.raises(CorruptDataError, match="does not exist"):
        open_table(table, external_store=store)


@pytest.mark.parametrize(
    "path", ["", "etc/passwd", "{key}/data/x.manifest", "{key}/_versions/../../x", "{key}"]
)
def test_a_store_cannot_lead_out_of_the_table(table: Path, path: str):
    store = DictStore()
    store.add(key(table), 3, path.format(key=key(table)))
    with pytest.raises(CorruptDataError):
        open_table(table, external_store=store)


def test_branches_have_keys_of_their_own(table: Path):
    branch = lance.dataset(table).create_branch("b/c", 2)
    lance.write_dataset(pa.table({"a": range(7)}), branch, mode="append")
    store = DictStore()
    store.add(key(table), 3, str(final(table, 3)).lstrip("/"))
    folder = table / "tree" / "b" / "c"
    store.add(key(folder), 3, staged(folder, 3))
    assert open_table(table, external_store=store).count_rows() == 3
    assert open_table(table, external_store=store, version=("b/c", None)).count_rows() == 9


def test_keys_have_neither_bucket_nor_slash(s3_options):
    assert store_key(open_location("s3://bucket/path/to/t.lance/", s3_options)) == "path/to/t.lance"
    assert store_key(open_location("/x/t.lance")) == "x/t.lance"


def test_dynamodb_needs_a_store():
    with pytest.raises(UnsupportedFeatureError, match="external_store") as caught:
        open_table("s3+ddb://bucket/t.lance?ddbTableName=secret")
    assert "secret" not in str(caught.value)


def test_dynamodb_urls_are_read_from_s3(table: Path, bucket: str, s3_options):
    fs = fsspec.filesystem("s3", **s3_options)
    path = staged(table, 3)
    fs.put(str(table), f"{bucket}/sub/t.lance", recursive=True)
    store = DictStore()
    store.add("sub/t.lance", 3, f"sub/t.lance/_versions/{Path(path).name}")
    uri = f"{bucket}/sub/t.lance?ddbTableName=x".replace("s3://", "s3+ddb://")
    ours = open_table(uri, storage_options=s3_options, external_store=store)
    assert (ours.version, ours.count_rows()) == (3, 3)
