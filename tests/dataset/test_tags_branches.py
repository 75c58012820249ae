"""Tags and branches that we make, move, write to and delete, beside pylance; writers that race for a name."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import AlreadyExistsError, InvalidInputError, StorageError, VersionNotFoundError
from lance_df.storage import location
from lance_df.table import clones

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOVING = ("createdAt", "updatedAt", "createAt", "manifestSize")


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": [str(i) for i in range(start, stop)]})


@pytest.fixture
def ours(tmp_path: Path) -> lance_df.LanceDataset:
    """Three versions; the second one lacks a row."""
    lance.write_dataset(rows(0, 10), tmp_path / "t", max_rows_per_file=4).delete("a = 3")
    lance.write_dataset(rows(10, 14), tmp_path / "t", mode="append")
    return lance_df.dataset(tmp_path / "t")


@pytest.fixture
def theirs(ours: lance_df.LanceDataset) -> lance.LanceDataset:
    return lance.dataset(ours.uri)


def values(data: Any) -> list[int]:
    found: list[int] = data.to_table()["a"].to_pylist()
    return found


def layout(text: str) -> list[str]:
    """Return the lines of a JSON file, without the values that differ from one writing to the next."""
    lines = []
    for line in text.splitlines():
        key, colon, _ = line.partition(":")
        is_moving = key.strip().strip('"') in MOVING
        is_uuid = len(line.strip().strip('"')) == 32
        lines.append(key + colon if is_moving else "uuid" if is_uuid else line)
    return lines


def refs(root: str, kind: str, name: str) -> str:
    with open(f"{root}/_refs/{kind}/{name}.json", encoding="utf-8") as file:
        return file.read()


def refusal(call: Callable[..., object], *args: Any) -> str:
    with pytest.raises(InvalidInputError) as caught:
        call(*args)
    return str(caught.value)


@pytest.mark.parametrize("reference", [None, 2, "first", (None, None), ("main", 2), (None, 1), ("br", None)])
def test_tags_as_pylance_makes_them(
    ours: lance_df.LanceDataset, theirs: lance.LanceDataset, reference: Any
) -> None:
    theirs.tags.create("first", 1)
    theirs.create_branch("br", 2)
    ours.tags.create("our.tag", reference)
    theirs.tags.create("their-tag", reference)
    ours_text, theirs_text = refs(ours.uri, "tags", "our.tag"), refs(ours.uri, "tags", "their-tag")
    assert layout(ours_text) == layout(theirs_text)
    found, listed = ours.tags.list(), theirs.tags.list()
    assert found == listed
    for key in ("branch", "version", "manifest_size", "metadata"):
        assert listed["our.tag"][key] == listed["their-tag"][key]
    assert values(theirs.checkout_version("our.tag")) == values(ours.checkout_version("their-tag"))


def test_the_version_at_hand_is_tagged_by_default(ours: lance_df.LanceDataset) -> None:
    ours.checkout_version(1).tags.create("old")
    branch = ours.create_branch("br", 2)
    branch.tags.create("new")
    assert ours.tags.list()["old"]["version"] == 1
    new = ours.tags.list()["new"]
    assert (new["branch"], new["version"]) == ("br", 2)


def test_tags_move_and_go(ours: lance_df.LanceDataset, theirs: lance.LanceDataset) -> None:
    theirs.tags.create("theirs", 1)
    ours.tags.create("ours", 1)
    before = theirs.tags.list()["theirs"]
    ours.tags.update("theirs", 3)
    theirs.tags.update("ours", 3)
    moved = theirs.tags.list()["theirs"]
    assert moved["version"] == 3
    assert moved["updated_at"] > before["updated_at"]
    assert moved["created_at"].replace(microsecond=0) == before["created_at"].replace(microsecond=0)
    assert ours.tags.get_version("ours") == 3

    ours.tags.replace_metadata("theirs", {"key": 'ä"\\'})
    assert theirs.tags.list()["theirs"]["metadata"] == {"key": 'ä"\\'}
    assert theirs.tags.list()["theirs"]["updated_at"] == moved["updated_at"]

    ours.tags.delete("theirs")
    theirs.tags.delete("ours")
    assert ours.tags.list() == theirs.tags.list() == {}


def test_what_tags_are_refused(ours: lance_df.LanceDataset, theirs: lance.LanceDataset) -> None:
    for name in ("a/b", "", ".a", "a.", "a..b", "a.lock", "a b", "a\\b", "..", "a\n", "a/../b", "%2F"):
        assert "not a valid tag name" in refusal(ours.tags.create, name, 1)
        with pytest.raises((OSError, ValueError)):
            theirs.tags.create(name, 1)
    assert "pylance cannot list" in refusal(ours.tags.create, "é", 1)
    assert "a string, got 5" in refusal(ours.tags.create, 5)
    assert "got a bool" in refusal(ours.tags.create, "x", True)
    assert "dict of strings" in refusal(ours.tags.replace_metadata, make_tag(ours, "kept"), {"a": 1})
    with pytest.raises(AlreadyExistsError, match="tag 'kept' already exists"):
        ours.tags.create("kept", 2)
    for missing in (99, "nothing", ("nowhere", None), ("main", 99)):
        with pytest.raises(VersionNotFoundError):
            ours.tags.create("x", missing)  # type: ignore[arg-type]
        with pytest.raises(VersionNotFoundError):
            ours.tags.update("kept", missing)  # type: ignore[arg-type]
    for call in (ours.tags.update, ours.tags.delete, ours.tags.get_version):
        with pytest.raises(VersionNotFoundError, match="tag 'nothing' does not exist; the tags are 'kept'"):
            call("nothing")
    with pytest.raises(VersionNotFoundError):
        ours.tags.replace_metadata("nothing", {})
    assert ours.tags.get_version("kept") == 3
    assert list(theirs.tags.list()) == ["kept"]


def make_tag(data: lance_df.LanceDataset, name: str) -> str:
    data.tags.create(name)
    return name


@pytest.mark.parametrize("reference", [None, 2, "first", (None, None), (None, 1)])
def test_branches_as_pylance_makes_them(
    ours: lance_df.LanceDataset, theirs: lance.LanceDataset, reference: Any
) -> None:
    ours.tags.create("first", 1)
    theirs.create_scalar_index("a", "BTREE")
    ours.checkout_latest()
    theirs = lance.dataset(ours.uri)
    branch = ours.create_branch("our/branch", reference)
    made = theirs.create_branch("their/branch", reference)
    assert layout(refs(ours.uri, "branches", "our%2Fbranch")) == layout(
        refs(ours.uri, "branches", "their%2Fbranch")
    )
    assert branch.version == made.version
    assert branch.uri == made.uri.replace("their/", "our/")
    assert ours.branches.list() == theirs.branches.list()
    opened = lance.dataset(branch.uri)
    opened.validate()
    assert values(branch) == values(opened) == values(made)
    assert [str(index) for index in opened.describe_indices()] == [
        str(index) for index in made.describe_indices()
    ]
    assert opened.to_table(filter="a = 2").num_rows == 1
    mine, other = branch._table.manifest, lance_df.dataset(made.uri)._table.manifest
    assert mine.base_paths == other.base_paths
    assert mine.fragments[0].files == other.fragments[0].files
    assert mine.reader_feature_flags == other.reader_feature_flags
    assert mine.writer_feature_flags == other.writer_feature_flags
    assert (mine.branch, mine.max_fragment_id) == ("our/branch", other.max_fragment_id)


def test_both_write_to_branches_of_branches(ours: lance_df.LanceDataset, theirs: lance.LanceDataset) -> None:
    branch = ours.create_branch("br", 2)
    theirs_branch = lance.write_dataset(rows(20, 23), theirs.checkout_version(("br", None)), mode="append")
    branch.checkout_latest()
    branch.delete("a = 21")
    branch = lance_df.write_dataset(rows(30, 32), branch, mode="append")
    assert branch.version == 5
    deep = branch.create_branch("br/deep")
    lance_df.write_dataset(rows(40, 41), deep.uri, mode="append")
    theirs_deep = lance.dataset(f"{ours.uri}/tree/br/deep")
    theirs_deep.delete("a = 0")
    deeper = theirs_deep.create_branch("deeper")
    ours_deeper = ours.checkout_version(("deeper", None))
    ours_deeper.delete("a = 1")
    deeper.checkout_latest()

    expected = [0, 1, 2, 4, 5, 6, 7, 8, 9, 20, 22, 30, 31]
    theirs_branch.checkout_latest()
    assert values(branch) == values(theirs_branch) == expected
    assert values(ours.checkout_version(("br/deep", None))) == values(theirs_deep) == [*expected[1:], 40]
    assert values(ours_deeper) == values(deeper) == [*expected[2:], 40]
    assert values(ours) == values(theirs) == [0, 1, 2, *range(4, 14)]
    levels = [ours.branches.list()[name]["branch_identifier"] for name in ("br", "br/deep", "deeper")]
    assert levels[0] == levels[1][:1] == levels[2][:1]
    assert levels[1] == levels[2][:2]
    for each in (theirs_branch, theirs_deep, deeper):
        each.validate()


def test_branches_are_deleted_unless_they_are_needed(
    ours: lance_df.LanceDataset, theirs: lance.LanceDataset, tmp_path: Path
) -> None:
    branch = ours.create_branch("br")
    branch.create_branch("br/child")
    theirs.create_branch("theirs")
    ours.create_branch("bra")
    branch.tags.create("on-br")
    message = refusal(ours.branches.delete, "br")
    assert "used by branch 'br/child', tag 'on-br'" in message
    with pytest.raises(OSError, match="referenced by"):
        theirs.branches.delete("br")
    theirs.tags.delete("on-br")
    theirs.branches.delete("br/child")
    ours.create_branch("br/other")
    ours.branches.delete("br")
    assert sorted(theirs.branches.list()) == ["br/other", "bra", "theirs"]
    assert values(ours.checkout_version(("br/other", None))) == values(ours)
    assert sorted(path.name for path in (tmp_path / "t/tree/br").iterdir()) == ["other"]
    ours.branches.delete("br/other")
    ours.branches.delete("theirs")
    theirs.branches.delete("bra")
    assert ours.branches.list() == theirs.branches.list() == {}
    assert not (tmp_path / "t/tree/br").exists()
    # the name is free again
    assert values(ours.create_branch("br", 1)) == list(range(10))
    theirs.checkout_version(("br", None)).validate()


def test_what_branches_are_refused(ours: lance_df.LanceDataset) -> None:
    for name in ("", "/a", "a/", "a//b", "a..b", "a.lock", "a b", ".", "a/.", "a\\b", "main", "é/ b"):
        assert "not a valid branch name" in refusal(ours.create_branch, name)
        assert "not a valid branch name" in refusal(ours.branches.delete, name)
    assert "a folder inside tables" in refusal(ours.create_branch, "a/data")
    assert "a string, got None" in refusal(ours.create_branch, None)
    ours.create_branch("kept")
    with pytest.raises(AlreadyExistsError, match="branch 'kept' already exists"):
        ours.create_branch("kept", 1)
    for missing in (99, "nothing", ("nowhere", None)):
        with pytest.raises(VersionNotFoundError):
            ours.create_branch("x", missing)  # type: ignore[arg-type]
    with pytest.raises(
        VersionNotFoundError, match="branch 'nothing' does not exist; the branches are 'main', 'kept'"
    ):
        ours.branches.delete("nothing")
    assert list(ours.branches.list()) == ["kept"]
    ours.branches.replace_metadata("kept", {"a": "b"})
    assert lance.dataset(ours.uri).branches.list()["kept"]["metadata"] == {"a": "b"}


def test_a_branch_that_was_left_unfinished(ours: lance_df.LanceDataset, tmp_path: Path) -> None:
    ours.create_branch("br")
    (tmp_path / "t/_refs/branches/br.json").unlink()
    with pytest.raises(AlreadyExistsError, match="its creation was interrupted"):
        ours.create_branch("br", 1)
    ours.branches.delete("br")
    assert values(ours.create_branch("br", 1)) == list(range(10))


def test_a_store_that_refuses_the_file_of_a_branch(
    ours: lance_df.LanceDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise StorageError("full")

    monkeypatch.setattr(clones, "create_ref", refuse)
    with pytest.raises(StorageError, match="full"):
        ours.create_branch("br")
    monkeypatch.undo()
    assert not list((tmp_path / "t/tree").rglob("*.manifest"))
    assert not list((tmp_path / "t/tree").rglob("*.txn"))
    assert ours.create_branch("br").version == 3


def test_one_of_many_creators_wins(ours: lance_df.LanceDataset) -> None:
    barrier = threading.Barrier(6)

    def create(version: int) -> tuple[list[int], list[int]]:
        won: tuple[list[int], list[int]] = ([], [])
        own = ours.checkout_version(version)
        for number in range(8):
            barrier.wait()
            for place, call in enumerate((own.tags.create, own.create_branch)):
                try:
                    call(f"n{number}")
                    won[place].append(number)
                except AlreadyExistsError:
                    pass
        return won

    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(create, [1, 2, 3, 1, 2, 3]))
    for place in range(2):
        assert sorted(number for result in results for number in result[place]) == list(range(8))
    theirs = lance.dataset(ours.uri)
    for number in range(8):
        name = f"n{number}"
        winner = next(v for v, won in zip([1, 2, 3] * 2, results, strict=True) if number in won[0])
        assert theirs.tags.list()[name]["version"] == winner
        winner = next(v for v, won in zip([1, 2, 3] * 2, results, strict=True) if number in won[1])
        assert theirs.branches.list()[name]["parent_version"] == winner
        branch = theirs.checkout_version((name, None))
        assert branch.version == winner
        assert values(branch) == values(theirs.checkout_version(winner))


def test_refs_in_s3(bucket: str, s3_options: dict[str, Any]) -> None:
    options = {
        "aws_access_key_id": s3_options["key"],
        "aws_secret_access_key": s3_options["secret"],
        "aws_endpoint": s3_options["endpoint_url"],
        "aws_region": "us-east-1",
        "allow_http": "true",
    }
    uri = f"{bucket}/t"
    ours = lance_df.write_dataset(rows(0, 5), uri, storage_options=s3_options)
    ours.tags.create("one", 1)
    with pytest.raises(AlreadyExistsError):
        ours.tags.create("one", 1)
    branch = ours.create_branch("a/b")
    branch.delete("a = 0")
    theirs = lance.dataset(uri, storage_options=options)
    assert values(theirs.checkout_version(("a/b", None))) == [1, 2, 3, 4]
    lance.write_dataset(rows(9, 10), f"{uri}/tree/a/b", mode="append", storage_options=options).tags.create(
        "two"
    )
    assert values(ours.checkout_version("two")) == [1, 2, 3, 4, 9]
    clone = branch.shallow_clone(f"{bucket}/clone", "two")
    deep = branch.deep_clone(f"{bucket}/deep", "two")
    assert clone.base_paths()[0].path == uri
    for each in (clone, deep):
        found = lance.dataset(each.uri, storage_options=options)
        assert values(found) == values(each) == [1, 2, 3, 4, 9]
        found.delete("a = 9")
    assert deep.base_paths() == {}
    ours.tags.delete("two")
    ours.tags.delete("one")
    ours.branches.delete("a/b")
    assert theirs.tags.list() == theirs.branches.list() == {}
    assert not location.open_location(f"{uri}/tree", s3_options).exists()


def test_branches_of_a_table_with_an_external_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = lance_df.SQLiteManifestStore(tmp_path / "versions.db")
    data = lance_df.write_dataset(rows(0, 3), tmp_path / "t", external_store=store)
    create_ref = clones.create_ref

    def taken(file: location.Location, content: bytes) -> bool:
        return file.name.endswith(".claim") and create_ref(file, content)

    for start in (1, 2):
        monkeypatch.setattr(clones, "create_ref", taken)
        with pytest.raises(AlreadyExistsError, match="branch 'br' was created by another writer"):
            data.create_branch("br")
        monkeypatch.undo()
        assert store.get_latest(str(tmp_path / "t/tree/br")) is None
        branch = data.create_branch("br", start)
        branch.delete("a = 0")
        again = lance_df.dataset(branch.uri, external_store=store)
        assert (values(again), again.version) == (list(range(1, start * 3)), start + 1)
        data.branches.delete("br")
        assert store.get_latest(str(tmp_path / "t/tree/br")) is None
        data = lance_df.write_dataset(rows(start * 3, start * 3 + 3), data, mode="append")
    assert values(lance.dataset(data.uri)) == values(data) == list(range(9))


def test_times_are_read_back_as_written(ours: lance_df.LanceDataset) -> None:
    ours.tags.create("t")
    stored = json.loads(refs(ours.uri, "tags", "t"))
    assert list(stored) == ["branch", "version", "createdAt", "updatedAt", "manifestSize", "metadata"]
    assert stored["createdAt"] == stored["updatedAt"]
    created = ours.tags.list()["t"]["created_at"]
    assert created is not None
    assert stored["createdAt"] == created.isoformat().replace("+00:00", "Z")
