"""Tags, branches and shallow clones, as pylance makes them and by hand."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import (
    CorruptDataError,
    InvalidInputError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from pathlib import Path


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"a": range(start, stop), "b": [str(i) for i in range(start, stop)]})


@pytest.fixture
def data(tmp_path: Path) -> lance.LanceDataset:
    """Three versions of main; a branch with two of its own; a branch of that; tags on all of them."""
    data = lance.write_dataset(rows(0, 10), tmp_path / "t.lance", max_rows_per_file=4)
    data.delete("a = 3")
    data = lance.write_dataset(rows(10, 14), data, mode="append")
    branch = data.create_branch("br/x", 2)
    branch = lance.write_dataset(rows(20, 25), branch, mode="append")
    branch.delete("a = 5")
    deep = branch.create_branch("deep.1", ("br/x", 4))
    lance.write_dataset(rows(30, 31), deep, mode="append")
    data.tags.create("first", 1)
    data.tags.create("on-branch", ("br/x", 3))
    data.tags.create("on-deep", ("deep.1", None))
    return data


REFS = [
    *(None, 1, 2, 3, "first", "on-branch", "on-deep", (None, None), ("main", 2), (None, 1)),
    *(("br/x", None), ("br/x", 2), ("br/x", 3), ("br/x", 4), ("deep.1", None), ("deep.1", 4)),
]


@pytest.mark.parametrize("ref", REFS, ids=str)
@pytest.mark.parametrize("start", [None, "br/x"])
def test_every_way_to_name_a_version(data: lance.LanceDataset, ref, start):
    if start is not None and ref == 1:
        with pytest.raises(VersionNotFoundError):
            open_table(f"{data.uri}/tree/{start}", version=ref)
        return
    uri = data.uri if start is None else f"{data.uri}/tree/{start}"
    origin = data if start is None else lance.dataset(uri)
    theirs = origin.checkout_version(ref) if ref is not None else origin
    for ours in (open_table(uri, version=ref), open_table(uri).checkout(ref)):
        assert ours.version == theirs.version
        assert ours.count_rows() == theirs.count_rows()
        assert ours.latest_version() == theirs.latest_version
        live = [ours.live_rows(fragment) for fragment in ours.fragments]
        assert live == [fragment.count_rows() for fragment in theirs.get_fragments()]
        for fragment in ours.fragments:
            for file in fragment.files:
                assert ours.open_data_file(fragment, file).num_rows == fragment.physical_rows
        assert [each["version"] for each in ours.versions()] == [
            each["version"] for each in theirs.versions()
        ]


def test_lists(data: lance.LanceDataset):
    for uri in (data.uri, f"{data.uri}/tree/br/x", f"{data.uri}/tree/deep.1"):
        ours = open_table(uri)
        tags = {
            name: {
                "branch": tag.branch,
                "version": tag.version,
                "created_at": tag.created_at,
                "updated_at": tag.updated_at,
                "manifest_size": tag.manifest_size,
                "metadata": dict(tag.metadata),
            }
            for name, tag in ours.tags().items()
        }
        assert tags == data.tags.list()
        branches = {
            name: {
                "parent_branch": branch.parent_branch,
                "branch_identifier": list(branch.identifier),
                "parent_version": branch.parent_version,
                "create_at": branch.created_at,
                "manifest_size": branch.manifest_size,
                "metadata": dict(branch.metadata),
            }
            for name, branch in ours.branches().items()
        }
        assert branches == data.branches.list()


def test_the_branch_argument(data: lance.LanceDataset):
    assert open_table(data.uri, branch="br/x").branch == "br/x"
    assert open_table(data.uri, branch="br/x", version=3).count_rows() == 14
    assert open_table(f"{data.uri}/tree/br/x", branch="main", version=3).count_rows() == 13
    assert open_table(f"{data.uri}/tree/br/x").branch == "br/x"
    assert open_table(f"{data.uri}/tree/br/x/").checkout("first").branch is None


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("nope", "tag 'nope' does not exist; the tags are 'first', 'on-branch', 'on-deep'"),
        ("br/x", "tag 'br/x' does not exist"),
        ("../../x", "tag .* does not exist"),
        ("", "tag '' does not exist"),
        (("nope", None), "branch 'nope' does not exist; the branches are 'main', 'br/x', 'deep.1'"),
        (("../t.lance", None), "branch .* does not exist"),
        (("", 1), "branch '' does not exist"),
        (("br/x", 1), "version 1 does not exist; the versions are 2 to 4"),
        (("br/x", 99), "version 99 does not exist"),
    ],
    ids=str,
)
def test_names_that_are_not_there(data: lance.LanceDataset, ref, message):
    with pytest.raises(VersionNotFoundError, match=message):
        open_table(data.uri, version=ref)


def test_time_and_version_exclude_each_other(data: lance.LanceDataset):
    with pytest.raises(InvalidInputError, match="cannot be combined"):
        open_table(data.uri, version=1, asof=open_table(data.uri).manifest.timestamp)


def test_tags_of_old_releases(data: lance.LanceDataset, tmp_path: Path):
    folder = tmp_path / "t.lance" / "_refs" / "tags"
    (folder / "old.json").write_text(json.dumps({"version": 2, "manifestSize": 1}))
    (folder / "older.json").write_text(json.dumps({"branch": "br/x", "version": 3, "manifestSize": 1}))
    assert open_table(data.uri, version="old").version == 2
    assert open_table(data.uri, version="older").uri.endswith("tree/br/x")
    (folder / "bad.json").write_text("{")
    with pytest.raises(CorruptDataError, match=r"bad\.json"):
        open_table(data.uri, version="bad")


def test_a_tag_cannot_lead_out_of_the_table(data: lance.LanceDataset, tmp_path: Path):
    file = tmp_path / "t.lance" / "_refs" / "tags" / "evil.json"
    file.write_text(json.dumps({"branch": "../../t.lance", "version": 1, "manifestSize": 1}))
    with pytest.raises(VersionNotFoundError, match=r"branch .* does not exist"):
        open_table(data.uri, version="evil")


def test_names_in_any_script(data: lance.LanceDataset):
    data.tags.create("tägg-日本", 2)
    lance.write_dataset(rows(40, 43), data.create_branch("dév/ß", 1), mode="append")
    tagged, branch = open_table(data.uri, version="tägg-日本"), open_table(data.uri, version=("dév/ß", None))
    assert (tagged.version, tagged.count_rows()) == (2, 9)
    assert branch.count_rows() == 13
    assert "tägg-日本" in tagged.tags()
    assert branch.branches().keys() == data.branches.list().keys()


@pytest.mark.parametrize("version", ["first", 2, ("br/x", 4)], ids=str)
def test_shallow_clones(data: lance.LanceDataset, tmp_path: Path, version):
    clone = data.shallow_clone(str(tmp_path / "clone.lance"), version)
    clone.delete("a in (1, 6)")
    clone = lance.write_dataset(rows(50, 52), clone, mode="append")
    clone.create_branch("of-clone", None)
    for uri in (clone.uri, f"{clone.uri}/tree/of-clone"):
        theirs, ours = lance.dataset(uri), open_table(uri)
        assert (ours.version, ours.count_rows()) == (theirs.version, theirs.count_rows())
        assert [ours.live_rows(fragment) for fragment in ours.fragments] == [
            fragment.count_rows() for fragment in theirs.get_fragments()
        ]
        for fragment in ours.fragments:
            assert ours.open_data_file(fragment, fragment.files[0]).num_rows == fragment.physical_rows
    assert (
        type(open_table(clone.uri).checkout(clone.versions()[0]["version"]).transaction().operation).__name__
        == "Clone"
    )


def test_a_clone_whose_source_is_gone_says_so(data: lance.LanceDataset, tmp_path: Path):
    clone = data.shallow_clone(str(tmp_path / "clone.lance"), 2)
    shutil.rmtree(tmp_path / "t.lance")
    ours = open_table(clone.uri)
    assert ours.count_rows() == 9
    with pytest.raises(CorruptDataError, match=r"t\.lance/data/.*missing"):
        ours.open_data_file(ours.fragments[0], ours.fragments[0].files[0])
    with pytest.raises(CorruptDataError, match=r"t\.lance/_deletions/.*missing"):
        ours.deletion_vector(ours.fragments[0])


@pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")
@pytest.mark.parametrize("link", ["tree", "tree/x", "tree/x/y"])
def test_branches_that_lie_elsewhere_are_not_deleted(tmp_path: Path, link: str):
    """Nor what an interrupted deletion would have left of one."""
    theirs = tmp_path / "theirs.lance"
    for folder in (theirs, theirs / "x/y", theirs / "y"):
        lance.write_dataset(rows(0, 3), folder)
    before = sorted(path for path in theirs.rglob("*"))
    ours = lance.write_dataset(rows(0, 3), tmp_path / "ours.lance")
    place = tmp_path / "ours.lance" / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(theirs)
    for name in ("x/y", "x", "y"):
        with pytest.raises((UnsupportedFeatureError, VersionNotFoundError)):
            lance_df.dataset(ours.uri).branches.delete(name)
    assert sorted(path for path in theirs.rglob("*")) == before
