"""Manifests that are known already, and those that only look like it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lance_df
from lance_df.cache import DEFAULT_CACHE_BYTES, TableCache, set_cache_bytes
from lance_df.storage.source import BytesSource
from lance_df.table.metadata.history import History
from lance_df.table.metadata.manifest_cache import ManifestCache
from lance_df.table.metadata.manifest_io import read_manifest
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lance_df.table.metadata.manifest_io import ManifestFile


def as_read(file: ManifestFile) -> tuple[Any, ...]:
    manifest = file.manifest
    return dataclasses.replace(manifest, fragments=None), list(manifest.fragments)


CHANGES: dict[str, Callable[[lance_df.LanceDataset], Any]] = {
    "append": lambda ds: ds.insert(pa.table({"a": [9], "b": ["nine"]})),
    "delete": lambda ds: ds.delete("a = 1"),
    "update": lambda ds: ds.update({"a": "a + 1"}, where="a = 2"),
    "add": lambda ds: ds.add_columns({"c": "a * 2"}),
    "rename": lambda ds: ds.alter_columns({"path": "b", "name": "d"}),
    "drop": lambda ds: ds.drop_columns(["d"]),
    "metadata": lambda ds: ds.update_field_metadata({"a": {"k": "v"}}),
    "config": lambda ds: ds.update_config({"k": "v"}),
    "index": lambda ds: ds.create_scalar_index("a", "ZONEMAP"),
    "compact": lambda ds: ds.optimize.compact_files(),
    "overwrite": lambda ds: lance_df.write_dataset(pa.table({"z": [1]}), ds, mode="overwrite"),
}


@pytest.mark.parametrize("version", ["0.1", "2.2"])
@pytest.mark.parametrize("stable", [False, True])
def test_a_manifest_that_was_made_is_the_one_that_is_read(tmp_path: Path, version: str, stable: bool):
    uri = str(tmp_path / "t.lance")
    words = pa.array(["x", "y", "x"]).dictionary_encode() if version == "0.1" else ["x", "y", "z"]
    lance_df.write_dataset(
        pa.table({"a": [1, 2, 3], "b": words}),
        uri,
        data_storage_version=version,
        enable_stable_row_ids=stable and version != "0.1",
    )
    rows = pa.table({"a": [4], "b": pa.array(["x"]).dictionary_encode() if version == "0.1" else ["x"]})
    changes = CHANGES
    if version == "0.1":
        changes = {"append": lambda ds: ds.insert(rows), "delete": CHANGES["delete"]}
    for change in changes.values():
        ds = lance_df.dataset(uri)
        change(ds)
        made = open_table(uri).manifest_file
        data = made.source.read_range(0, made.source.size).to_pybytes()
        anew = read_manifest(BytesSource(made.path, data))
        assert anew is not made
        assert as_read(made) == as_read(anew)
        assert made.manifest.origin == anew.manifest.origin
    assert open_table(uri).version > len(changes)


def test_what_was_made_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1]}), uri)
    monkeypatch.setattr("lance_df.table.metadata.manifest_cache.read_manifest", None)
    lance_df.write_dataset(pa.table({"a": [2]}), uri, mode="append")
    assert lance_df.dataset(uri).count_rows() == 2


def test_a_file_of_the_same_name_and_size_is_another_one(tmp_path: Path):
    one, theirs, tries = tmp_path / "one", b"", 0
    lance_df.write_dataset(pa.table({"a": [1]}), one)
    name = next((one / "_versions").glob("*.manifest"))
    while len(theirs) != name.stat().st_size:  # small numbers of nanoseconds take fewer bytes
        tries += 1
        lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / f"other {tries}")
        theirs = next((tmp_path / f"other {tries}/_versions").glob("*.manifest")).read_bytes()
    assert open_table(one).manifest.transaction_file.encode() not in theirs
    name.write_bytes(theirs)
    assert open_table(one).manifest.transaction_file.encode() in theirs


def test_manifests_are_counted_and_evicted(tmp_path: Path):
    files = []
    for number in range(4):
        lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / f"{number}")
        files.append(open_table(tmp_path / f"{number}").manifest_file)
    counted = TableCache()
    cache = ManifestCache(counted)
    for file in (*files, files[2]):
        cache.keep(file)
    assert [cache.read(file.source) is file for file in files] == [True] * 4
    counters = counted.statistics().total
    assert (counters.entries, counters.num_bytes > 4 * files[0].source.size) == (4, True)
    set_cache_bytes(0)
    try:
        assert all(cache.read(file.source) is not file for file in files)
    finally:
        set_cache_bytes(DEFAULT_CACHE_BYTES)


def test_a_latest_version_is_the_cached_one_for_all(tmp_path: Path):
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t")
    history = History(open_table(tmp_path / "t").location)
    assert history.open_latest() is history.open_latest()
