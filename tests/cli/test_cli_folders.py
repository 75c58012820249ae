"""`inspect` and `verify` of folders of tables."""

import json
import shutil

import pytest

from lance_df import PartitionedNamespace


@pytest.fixture
def folder(root, tmp_path):
    """Two whole tables, and a namespace."""
    shutil.copytree(root / "trips.lance", tmp_path / "all" / "sub" / "trips.lance")
    shutil.copytree(root / "empty.lance", tmp_path / "all" / "empty.lance")
    import pyarrow as pa

    rows = pa.table({"id": [1, 2], "kind": ["a", "b"]})
    PartitionedNamespace.create(tmp_path / "all" / "n", rows.schema, ["kind"]).append(rows)
    return tmp_path / "all"


def damage(folder):
    for path in (folder / "empty.lance" / "_versions").iterdir():
        path.write_bytes(b"nothing")


def test_a_folder_is_inspected(cli, folder):
    code, out, err = cli("inspect", folder, "--format", "json")
    tables = json.loads(out)["tables"]
    assert (code, err) == (0, "")
    assert {row["table"]: (row["rows"], row["partitions"]) for row in tables} == {
        "empty.lance": (0, None),
        "n": (None, 2),
        "sub/trips.lance": (990, None),
    }
    damage(folder)
    code, out, _ = cli("inspect", folder)
    assert code == 1
    assert "sub/trips.lance" in out
    assert "cannot be opened\n" in out
    assert cli("inspect", folder, "--version", "1")[0] == 2


def test_a_folder_is_verified(cli, folder):
    code, out, err = cli("verify", folder)
    assert (code, err) == (0, "")
    assert out.count("nothing found") == 3
    assert out.splitlines()[-1] == "3 checked, all of them whole"
    damage(folder)
    code, out, _ = cli("verify", folder)
    assert code == 1
    assert "empty.lance: cannot be opened: " in out
    assert out.splitlines()[-1] == "3 checked, 1 with problems"
    code, out, _ = cli("verify", folder, "--format", "json")
    assert code == 1
    assert [set(each) >= {"uri", "error"} for each in json.loads(out)] == [True, False, False]


def test_a_table_without_versions_is_reported(cli, folder):
    (folder / "hollow.lance").mkdir()
    code, out, _ = cli("verify", folder)
    assert code == 1
    assert "hollow.lance: cannot be opened" in out


def test_a_namespace_that_has_lost_its_manifest_is_reported(cli, folder):
    shutil.rmtree(folder / "n" / "__manifest")
    for path in (folder, folder / "n"):
        for command in ("verify", "inspect"):
            code, out, _ = cli(command, path)
            assert code == 1
            assert "whose folder __manifest is missing" in out
