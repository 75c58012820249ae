"""Clean-up: what pylance would remove, and never what a version, tag, branch, clone or commit may need."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import random
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.blob import blob_array, blob_field
from lance_df.errors import (
    CommitStateUnknownError,
    CorruptDataError,
    InvalidInputError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.format.fragments import DataFile, Fragment
from lance_df.format.operations import Append, Restore
from lance_df.format.transaction import Transaction
from lance_df.storage import Location, open_location
from lance_df.table.commit import publish
from lance_df.table.maintenance.cleanup import cleanup
from lance_df.table.maintenance.cleanup_policy import CleanupPolicy
from lance_df.table.maintenance.cleanup_result import CleanupStats
from lance_df.table.maintenance.needed_files import FileNames, versions_at
from lance_df.table.metadata.external_store import put_manifest, store_key
from lance_df.table.metadata.external_store_sqlite import SQLiteManifestStore

if TYPE_CHECKING:
    from lance_df import LanceDataset

NOW = dt.timedelta(0)
DAY = 86400
STRAYS = (
    "data/stray{}.lance",
    "_deletions/9-9-{}.arrow",
    "_deletions/9-9-{}.bin",
    "_transactions/9-{}.txn",
    "_versions/.tmp_{}",
    "_indices/11111111-1111-1111-1111-11111111111{}/page.lance",
)


def files(uri: str) -> set[str]:
    root = Path(uri)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def write(module: Any, uri: str, first: int, mode: str = "append") -> None:
    module.write_dataset(pa.table({"a": range(first, first + 10), "b": ["x"] * 10}), uri, mode=mode)


def put(uri: str, name: str, days_old: float, data: bytes = b"abc") -> str:
    path = Path(uri) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    then = time.time() - days_old * DAY
    os.utime(path, (then, then))
    return name


def contents(uri: str, module: Any = lance_df) -> dict[int, list[Any]]:
    dataset = module.dataset(uri)
    return {
        each["version"]: module.dataset(uri, version=each["version"]).to_table().to_pylist()
        for each in dataset.versions()
    }


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Return a table of nine versions with two indices, of which the second has a tag."""
    uri = str(tmp_path / "t.lance")
    write(lance, uri, 0, "create")
    write(lance_df, uri, 10)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    lance.dataset(uri).tags.create("two", 2)
    lance_df.dataset(uri).delete("a = 3")
    write(lance_df, uri, 20, "overwrite")
    lance.dataset(uri).create_scalar_index("b", "BITMAP")
    lance_df.dataset(uri).update({"b": "'y'"}, where="a = 21")
    lance.dataset(uri).delete("a = 22")
    write(lance, uri, 30, "overwrite")
    return uri


CONDITIONS: list[dict[str, Any]] = [
    {},
    {"older_than": NOW},
    {"older_than": NOW, "delete_unverified": True},
    {"older_than": dt.timedelta(days=1)},
    {"retain_versions": 3},
    {"retain_versions": 100},
    {"retain_versions": 1, "older_than": dt.timedelta(days=1)},
    {"versions": [1, 4, 77]},
    {"versions": [9]},
    {"versions": [1, 8], "retain_versions": 4},
]


def test_the_files_are_those_that_pylance_removes(uri: str, tmp_path: Path) -> None:
    for number, age in enumerate((1, 8)):
        for name in STRAYS:
            put(uri, name.format(number), age)
    put(uri, "data/readme.txt", 30)
    put(uri, "elsewhere/data/x.lance", 30)
    for number, conditions in enumerate(CONDITIONS):
        options = {"error_if_tagged_old_versions": False, **conditions}
        ours, theirs = (shutil.copytree(uri, tmp_path / f"{who}{number}") for who in "ot")
        plan = lance_df.dataset(ours).explain_cleanup_old_versions(**options, include_files=True)
        assert files(str(ours)) == files(uri)
        assert lance_df.dataset(ours).cleanup_old_versions(**options, dry_run=True) == plan.stats
        stats = lance_df.dataset(ours).cleanup_old_versions(**options)
        expected = lance.dataset(theirs).cleanup_old_versions(**options)
        assert {name: getattr(expected, name) for name in stats.__slots__} == {
            name: getattr(stats, name) for name in stats.__slots__
        }
        assert files(str(ours)) == files(str(theirs)), conditions
        assert stats == plan.stats
        assert {file.path for file in plan.candidate_files} == files(uri) - files(str(ours))
        assert contents(str(ours)) == contents(str(ours), lance)


def test_claims_of_writes_that_nobody_ended_go_when_they_are_old(uri: str) -> None:
    old, new = (put(uri, f"_transactions/{days}.claim", days) for days in (8, 1))
    options: dict[str, Any] = {"older_than": NOW, "error_if_tagged_old_versions": False}
    plan = lance_df.dataset(uri).explain_cleanup_old_versions(**options, include_files=True)
    assert [(file.path, file.kind) for file in plan.candidate_files if "claim" in file.path] == [
        (old, "transaction")
    ]
    lance_df.dataset(uri).cleanup_old_versions(**options)
    assert {name for name in files(uri) if "claim" in name} == {new}
    lance_df.dataset(uri).cleanup_old_versions(**options, delete_unverified=True)
    assert not {name for name in files(uri) if "claim" in name}


def test_what_is_explained_is_bounded(uri: str) -> None:
    ours = lance_df.dataset(uri)
    options: dict[str, Any] = {"older_than": NOW, "error_if_tagged_old_versions": False}
    plan = ours.explain_cleanup_old_versions(**options, include_files=True, max_files=2)
    assert (len(plan.candidate_files), plan.candidate_files_truncated) == (2, True)
    bare = ours.explain_cleanup_old_versions(**options)
    assert (bare.candidate_files, bare.candidate_files_truncated) == ([], False)
    assert bare.stats == plan.stats
    with pytest.raises(InvalidInputError):
        ours.explain_cleanup_old_versions(max_files=-1)


def test_a_tag_stops_it(uri: str) -> None:
    before = files(uri)
    with pytest.raises(InvalidInputError, match="version 2 cannot be removed because it has the tag 'two'"):
        lance_df.dataset(uri).cleanup_old_versions(NOW)
    assert files(uri) == before


def test_versions_from_the_one_that_is_open_on_stay(uri: str) -> None:
    old = lance_df.dataset(uri, version=5)
    old.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert set(contents(uri)) == {2, 5, 6, 7, 8, 9}


@pytest.mark.parametrize(
    "conditions",
    [
        {"older_than": dt.timedelta(seconds=-1)},
        {"older_than": 5},
        {"retain_versions": 0},
        {"retain_versions": 1.5},
        {"versions": []},
        {"versions": 3},
        {"versions": ["x"]},
        {"delete_rate_limit": 0},
        {"delete_concurrency": 0},
    ],
)
def test_wrong_conditions_are_refused(uri: str, conditions: dict[str, Any]) -> None:
    before = files(uri)
    with pytest.raises(InvalidInputError):
        lance_df.dataset(uri).cleanup_old_versions(**conditions)
    assert files(uri) == before


# -- who needs what --


def test_branches_keep_what_they_start_from(uri: str) -> None:
    lance.dataset(uri).create_branch("br/x", 5)
    branch = f"{uri}/tree/br/x"
    write(lance_df, branch, 50)
    before = lance.dataset(branch).to_table()
    ours = lance_df.dataset(uri)
    plan = ours.explain_cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert [(each.name, each.referenced_version) for each in plan.referenced_branches] == [("br/x", 5)]
    ours.cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert set(contents(uri)) == {2, 5, 9}
    assert lance.dataset(branch).to_table() == lance_df.dataset(branch).to_table() == before
    # the branch has no tag: only its own newest version stays, and nothing of main is touched
    main = files(uri) - {f"tree/br/x/{name}" for name in files(branch)}
    stats = lance_df.dataset(branch).cleanup_old_versions(NOW)
    assert stats.old_versions == 1
    assert lance.dataset(branch).to_table() == before
    assert main <= files(uri)


def test_a_branch_that_is_just_being_made_counts(uri: str) -> None:
    lance.dataset(uri).create_branch("br", 5)
    (Path(uri) / "_refs/branches/br.json").unlink()
    before = lance.dataset(f"{uri}/tree/br").to_table()
    lance_df.dataset(uri).cleanup_old_versions(
        NOW, error_if_tagged_old_versions=False, delete_unverified=True
    )
    assert set(contents(uri)) == {2, 9}
    assert lance.dataset(f"{uri}/tree/br").to_table() == before


def test_a_table_that_is_a_base_path_may_need_files(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "source.lance"), str(tmp_path / "clone.lance")
    write(lance_df, source, 0, "create")
    lance.dataset(source).shallow_clone(clone, 1)
    write(lance_df, source, 10, "overwrite")
    base = lance.DatasetBasePath(clone, name="clone", is_dataset_root=True)
    lance.dataset(source).add_bases([base])
    ours = lance_df.dataset(source)
    assert ours.cleanup_old_versions(NOW).data_files_removed == 0
    assert lance.dataset(clone).count_rows() == 10
    # and a clone removes nothing of its source
    write(lance, clone, 20)
    write(lance, clone, 30, "overwrite")
    before = files(source)
    stats = lance_df.dataset(clone).cleanup_old_versions(NOW)
    assert (stats.old_versions, stats.data_files_removed) == (2, 1)
    assert files(source) == before


def test_commits_under_way_keep_what_they_name(uri: str) -> None:
    """One that restores a version needs it; one of files that were written long ago needs these."""
    restore = Transaction(read_version=9, uuid="r", operation=Restore(4))
    put(uri, "_transactions/9-r.txn", 0.1, restore.serialize())
    put(uri, "_transactions/9-torn.txn", 0.1, b"\xff\xff")
    fragment = Fragment(id=0, files=(DataFile(path="late.lance", fields=(0,)),), physical_rows=1)
    append = Transaction(read_version=9, uuid="a", operation=Append((fragment,)))
    put(uri, "_transactions/9-a.txn", 0.1, append.serialize())
    late = put(uri, "data/late.lance", 30)
    lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert set(contents(uri)) == {2, 4, 9}
    assert late in files(uri)
    put(uri, "_transactions/9-r.txn", 8, restore.serialize())
    put(uri, "_transactions/9-a.txn", 8, append.serialize())
    lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert set(contents(uri)) == {2, 9}
    assert late not in files(uri)


def test_detached_versions_stay(uri: str) -> None:
    table = lance_df.dataset(uri)._table
    manifest = Path(uri) / "_versions" / f"{2**64 - 1 - 4:020}.manifest"
    detached = manifest.with_name(f"d{2**63 + 4}.manifest")
    shutil.copy(manifest, detached)
    expected = table.checkout(4).count_rows()
    lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert detached.exists()
    assert table.checkout(2**63 + 4).count_rows() == expected


def test_versions_made_meanwhile_keep_their_files(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody commits a file that had been lying there for a long time, just before it is removed."""
    dataset = lance_df.dataset(uri)
    fragments = lance.fragment.write_fragments(pa.table({"a": [99], "b": ["z"]}), uri)
    path = f"data/{fragments[0].files[0].path}"
    os.utime(Path(uri) / path, (0, 0))
    original, committed = Location.remove, []

    def remove(location: Location) -> None:
        if not committed:  # not in the first chunk: chunks are small in this test
            committed.append(True)
            lance.LanceDataset.commit(uri, lance.LanceOperation.Append(fragments), read_version=9)
        original(location)

    monkeypatch.setattr("lance_df.table.maintenance.cleanup._CHUNK", 1)
    monkeypatch.setattr(Location, "remove", remove)
    cleanup(dataset._table, CleanupPolicy(older_than=NOW, error_if_tagged=False))
    assert path in files(uri)
    assert lance.dataset(uri).count_rows() == 11


# -- failures --


def test_a_crash_leaves_old_versions_at_worst(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = lance.dataset(uri).to_table()
    complete = shutil.copytree(uri, f"{uri}.complete")
    lance_df.dataset(complete).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    original = Location.remove
    for survived in (0, 5, 12, 20, 24):
        target = str(shutil.copytree(uri, f"{uri}.{survived}"))
        left = survived

        def remove(location: Location) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            original(location)

        with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
            patch.setattr(Location, "remove", remove)
            lance_df.dataset(target).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
        assert files(target) != files(uri) or not survived
        assert lance.dataset(target).to_table() == newest
        assert lance.dataset(target, version="two").count_rows() == 20
        lance_df.dataset(target).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
        assert files(target) == files(str(complete))


@pytest.mark.parametrize("folder", ["data", "_deletions", "_indices"])
def test_versions_that_were_removed_half_are_not_restored(uri: str, folder: str) -> None:
    """A clean-up that is killed has removed some files of a version, and not yet its manifest."""
    lance.dataset(uri).delete("a = 35")
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    wanted = lance_df.dataset(uri).version
    expected = lance.dataset(uri).to_table()
    write(lance_df, uri, 50, "overwrite")
    version = lance.dataset(uri, version=wanted)
    (fragment,) = version.get_fragments()
    (index,) = version.describe_indices()
    names = {
        "data": fragment.data_files()[0].path,
        "_deletions": Path(fragment.deletion_file()).name,
        "_indices": index.segments[0].uuid,
    }
    gone = Path(uri) / folder / names[folder]
    gone.rename(aside := Path(uri) / "aside")
    if folder == "_indices":
        gone.mkdir()
    newest = lance_df.dataset(uri).version
    old = lance_df.dataset(uri).checkout_version(wanted)
    with pytest.raises(CorruptDataError, match=f"version {wanted} cannot be restored: .*{gone.name}"):
        old.restore()
    assert lance_df.dataset(uri).version == newest
    if folder == "_indices":
        gone.rmdir()
    aside.rename(gone)
    lance_df.dataset(uri).checkout_version(wanted).restore()
    assert lance.dataset(uri).to_table() == expected
    assert lance.dataset(uri).to_table(filter="a = 36").num_rows == 1


def test_what_cannot_be_removed_keeps_the_manifests(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Location.remove

    def remove(location: Location) -> None:
        if location.path.endswith(".txn"):
            raise StorageError("no")
        original(location)

    with monkeypatch.context() as patch:
        patch.setattr(Location, "remove", remove)
        stats = lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert stats.failed_deletes > 0
    assert (stats.old_versions, stats.transaction_files_removed) == (0, 0)
    again = lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert (again.old_versions, again.transaction_files_removed) == (7, stats.failed_deletes)


def test_an_unreadable_manifest_stops_it(uri: str) -> None:
    (Path(uri) / "_versions" / f"{2**64 - 1 - 4:020}.manifest").write_bytes(b"x" * 100)
    before = files(uri)
    with pytest.raises(CorruptDataError):
        lance_df.dataset(uri).cleanup_old_versions(NOW, error_if_tagged_old_versions=False)
    assert files(uri) == before


@pytest.mark.parametrize("word", ["reader_feature_flags", "writer_feature_flags"])
def test_versions_of_later_releases_stop_it(uri: str, word: str) -> None:
    """They may need files in ways that are not known here, such as overlays."""
    (file,) = [each for each in versions_at(open_location(uri)) if each.manifest.version == 9]
    names = FileNames()
    names.add_version(file, frozenset({None}))
    assert (len(names.data), len(names.transactions)) == (1, 1)
    later = dataclasses.replace(file.manifest, **{word: 64})  # type: ignore[arg-type]
    with pytest.raises(UnsupportedFeatureError, match="0x40 are unknown"):
        names.add_version(dataclasses.replace(file, manifest=later), frozenset({None}))


def test_the_rate_is_bounded(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("lance_df.table.maintenance.removal.time.sleep", slept.append)
    monkeypatch.setattr("lance_df.table.maintenance.removal.time.monotonic", lambda: 0.0)
    stats = lance_df.dataset(uri).cleanup_old_versions(
        NOW, error_if_tagged_old_versions=False, delete_rate_limit=10
    )
    assert stats.old_versions == 7
    assert slept == pytest.approx([number / 10 for number in range(len(slept))])


# -- histories --


def changes(uri: str, chance: random.Random) -> list[Callable[[], Any]]:
    module = chance.choice([lance, lance_df])
    version = chance.choice(lance_df.dataset(uri).versions())["version"]
    number = chance.randrange(10**6)
    value = chance.randrange(100)

    def compact() -> None:
        module.dataset(uri).optimize.compact_files()

    return [
        lambda: write(module, uri, value),
        lambda: write(module, uri, value),
        lambda: write(module, uri, value, "overwrite"),
        lambda: module.dataset(uri).delete(f"a % 7 = {value % 7}"),
        lambda: module.dataset(uri).update({"b": "'u'"}, where=f"a > {value}"),
        lambda: module.dataset(uri).create_scalar_index("a", "ZONEMAP"),
        compact,
        lambda: lance.dataset(uri).tags.create(f"t{number}", version),
        lambda: lance.dataset(uri).create_branch(f"b{number}", version),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_random_histories(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    uri = str(tmp_path / "t.lance")
    write(lance, uri, 0, "create")
    for _ in range(14):
        chance.choice(changes(uri, chance))()
    branches = [f"{uri}/tree/{name}" for name in lance_df.dataset(uri).branches.list()]
    for branch in branches:
        write(lance_df, branch, 500)
    everything = {each: contents(each) for each in (uri, *branches)}
    theirs = shutil.copytree(uri, tmp_path / "theirs.lance")
    keep = chance.choice([1, 3])
    ours = lance_df.dataset(uri)
    ours.cleanup_old_versions(NOW, keep, error_if_tagged_old_versions=False)
    for each in (uri, *branches):
        found = contents(each)
        assert found == contents(each, lance)
        assert found == {version: everything[each][version] for version in found}
    tagged = {tag["version"] for tag in ours.tags.list().values()}
    starts = {branch["parent_version"] for branch in ours.branches.list().values()}
    newest = sorted(everything[uri])[-keep:]
    assert set(contents(uri)) == tagged | starts | set(newest)
    if not branches:  # with branches pylance removes transaction files of versions that stay
        lance.dataset(theirs).cleanup_old_versions(NOW, keep, error_if_tagged_old_versions=False)
        assert files(uri) == files(str(theirs))
    assert unreferenced(ours) == set()


def unreferenced(dataset: LanceDataset) -> set[str]:
    """Return the data files below the table's root that none of its versions or branches names."""
    uri = dataset.uri
    places = [uri, *(f"{uri}/tree/{name}" for name in dataset.branches.list())]
    named = {
        file.path
        for place in places
        for each in lance_df.dataset(place).versions()
        for fragment in lance_df.dataset(place, version=each["version"]).get_fragments()
        for file in fragment.data_files()
    }
    return {path.name for path in (Path(uri) / "data").iterdir()} - named


def test_a_remote_store(bucket: str, s3_options: dict[str, Any]) -> None:
    uri = f"{bucket}/t.lance"
    for number in range(2):
        made = lance_df.write_dataset(
            pa.table({"a": [number]}), uri, mode="overwrite", storage_options=s3_options, statistics=True
        )
    before = made.to_table()
    stats = made.cleanup_old_versions(NOW, delete_concurrency=4)
    assert (stats.old_versions, stats.data_files_removed, stats.index_files_removed) == (3, 1, 1)
    again = lance_df.dataset(uri, storage_options=s3_options)
    assert [each["version"] for each in again.versions()] == [4]
    assert again.to_table(filter="a = 1") == before
    assert made.cleanup_old_versions(NOW) == CleanupStats()


def test_an_external_store_forgets_versions_before_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = str(tmp_path / "t.lance"), SQLiteManifestStore(tmp_path / "store.db")
    for number in range(3):
        made = lance_df.write_dataset(
            pa.table({"a": [number]}), uri, mode="overwrite", external_store=store, statistics=True
        )
    assert made.version == 6
    before = made.to_table()
    original = Location.remove

    def remove(location: Location) -> None:
        if location.path.endswith(".manifest"):
            raise KeyboardInterrupt
        original(location)

    with monkeypatch.context() as patch:
        patch.setattr(Location, "remove", remove)
        with pytest.raises(KeyboardInterrupt):
            made.cleanup_old_versions(NOW)
    key = store_key(made._table.location)
    assert [version for version in range(1, 7) if store.get(key, version) is not None] == [6]
    assert made.cleanup_old_versions(NOW).old_versions == 5
    again = lance_df.dataset(uri, external_store=store)
    assert [each["version"] for each in again.versions()] == [6]
    assert again.to_table() == before


def test_a_paused_writer_does_not_bring_a_version_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = str(tmp_path / "t.lance"), SQLiteManifestStore(tmp_path / "store.db")
    rows = pa.table({"a": [0]})
    lance_df.write_dataset(rows, uri, external_store=store)
    pending = [publish.put_manifest]

    def pause(*arguments: Any) -> None:
        if pending:  # the first writer, after its version was recorded
            real = pending.pop()
            for _ in range(2):
                made = lance_df.write_dataset(rows, uri, mode="append", external_store=store)
            assert made.cleanup_old_versions(NOW).old_versions == 3
            real(*arguments)
        else:
            put_manifest(*arguments)

    monkeypatch.setattr(publish, "put_manifest", pause)
    with pytest.raises(CommitStateUnknownError):
        lance_df.write_dataset(rows, uri, mode="append", external_store=store)
    for options in ({}, {"external_store": store}):
        assert [each["version"] for each in lance_df.dataset(uri, **options).versions()] == [4]
    assert len(list(Path(uri, "_versions").glob("*manifest*"))) == 1
    key = store_key(open_location(uri))
    assert [version for version in range(6) if store.get(key, version) is not None] == [4]


def test_staged_manifests_of_killed_writers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, store = str(tmp_path / "t.lance"), SQLiteManifestStore(tmp_path / "store.db")
    rows = pa.table({"a": [0]})
    lance_df.write_dataset(rows, uri, external_store=store)
    monkeypatch.setattr(publish, "put_manifest", lambda *arguments: None)
    made = lance_df.write_dataset(rows, uri, mode="append", external_store=store)
    known = store.get(store_key(open_location(uri)), 2)
    assert known is not None
    assert not known.is_final
    old = put(uri, f"_versions/{known.final_name}-{'1' * 36}", 8)
    new = put(uri, f"_versions/{known.final_name}-{'2' * 36}", 6)
    os.utime(f"{uri}/_versions/{known.name}", (0, 0))
    lance_df.dataset(uri).cleanup_old_versions(retain_versions=9)  # it does not know the store
    assert {old, new} <= files(uri)
    made.cleanup_old_versions(retain_versions=9)
    assert (old in files(uri), new in files(uri)) == (False, True)
    made.cleanup_old_versions(retain_versions=9, delete_unverified=True)
    assert new not in files(uri)
    assert lance_df.dataset(uri, external_store=store).count_rows() == 2


@pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")
@pytest.mark.parametrize("name", ["_indices", "data", "_deletions", "_transactions", "_versions"])
def test_what_links_lead_to_stays(tmp_path: Path, name: str) -> None:
    """A link is not of the table, nor is what it leads to."""
    theirs, ours = str(tmp_path / "theirs.lance"), str(tmp_path / "ours.lance")
    for uri in (theirs, ours):
        for first in (0, 10):
            write(lance_df, uri, first, "overwrite")
    lance_df.dataset(theirs).create_scalar_index("a", "BTREE")
    write(lance_df, theirs, 20, "overwrite")
    put(theirs, "_indices/notes/thesis.txt", 900)
    before = files(theirs)
    shutil.rmtree(Path(ours, name), ignore_errors=True)
    Path(ours, name).symlink_to(Path(theirs, name))
    for delete_unverified in (False, True):
        with suppress(CorruptDataError):  # the manifests are of another table
            lance_df.dataset(ours).cleanup_old_versions(NOW, delete_unverified=delete_unverified)
        assert files(theirs) == before


def test_folders_of_indices_that_a_killed_clean_up_emptied_go(uri: str) -> None:
    """They have no files, so that no file leads to them; a new one may be of an index that is being made."""
    folders = [Path(uri, "_indices", f"11111111-1111-1111-1111-11111111111{i}") for i in range(2)]
    for folder, age in zip(folders, (8, 1), strict=True):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age * DAY,) * 2)
    data = lance_df.dataset(uri)
    data.cleanup_old_versions(dry_run=True)
    assert all(folder.exists() for folder in folders)
    data.cleanup_old_versions()
    assert [folder.exists() for folder in folders] == [False, True]
    data.cleanup_old_versions(delete_unverified=True)
    assert not any(folder.exists() for folder in folders)


def test_folders_of_blobs_go_with_them(tmp_path: Path) -> None:
    """And so do those that a killed clean-up emptied."""
    table = pa.table(
        [blob_array([b"x" * 30])], schema=pa.schema([blob_field("b", dedicated_size_threshold=9)])
    )
    data = tmp_path / "t.lance" / "data"
    for _ in range(3):
        dataset = lance_df.write_dataset(
            table, tmp_path / "t.lance", mode="overwrite", data_storage_version="2.2"
        )
    folders = {each for each in data.iterdir() if each.is_dir()}
    assert len(folders) == 3
    (needed,) = {
        data / fragment.data_files()[0].path.removesuffix(".lance") for fragment in dataset.get_fragments()
    }
    emptied = min(folders - {needed})
    for file in emptied.iterdir():
        file.unlink()
    dataset.cleanup_old_versions(older_than=dt.timedelta(0))
    assert {each for each in data.iterdir() if each.is_dir()} == {needed}
    assert dataset.take_blobs("b", indices=[0])[0].read() == b"x" * 30
