"""The commands that look at a namespace, and mend it."""

import json
import os
import shutil

import lance
import lance_namespace as requests
import pyarrow as pa
import pytest
from lance.namespace import DirectoryNamespace as TheirNamespace

from lance_df import PartitionedNamespace

ROWS = pa.table({"id": pa.array(range(8), pa.int64()), "kind": ["a", "b"] * 4})


@pytest.fixture
def namespace(tmp_path):
    made = PartitionedNamespace.create(tmp_path / "n", ROWS.schema, ["kind"])
    made.append(ROWS)
    return made


def test_verify_and_repair(cli, namespace):
    root = namespace.uri
    code, out, err = cli("verify", root, "--deep")
    assert (code, err) == (0, "")
    assert "every row: nothing found" in out
    TheirNamespace(root=root).create_namespace(requests.CreateNamespaceRequest(id=["x"]))
    code, out, err = cli("verify", root)
    assert (code, err) == (1, "")
    assert "run repair" in out
    code, out, _ = cli("verify", root, "--format", "json")
    assert code == 1
    (problem,) = json.loads(out)["problems"]
    assert (problem["severity"], problem["kind"]) == ("error", "columns")
    code, out, err = cli("inspect", root)
    assert code == 1
    assert "repair" in err
    assert cli("repair", root, "--dry-run")[0] == 0
    assert cli("verify", root)[0] == 1
    code, out, _ = cli("repair", root)
    assert code == 0
    assert "completed from an older version" in out
    assert cli("verify", root, "--deep")[0] == 0
    assert "nothing to repair" in cli("repair", root)[1]


def test_repair_takes_options(cli, namespace):
    root = namespace.uri
    row = namespace.partitions().to_pylist()[0]
    lance.write_dataset(ROWS.slice(0, 1), f"{root}/{row['location']}", mode="append")
    assert "newer version shown" in cli("repair", root, "--publish-newer")[1]
    orphan = f"{root}/00000000_v1${'a' * 16}$dataset"
    lance.write_dataset(ROWS, orphan)
    assert "nothing to repair" in cli("repair", root, "--remove-orphans")[1]
    assert os.path.isdir(orphan)
    done = cli("repair", root, "--remove-orphans", "--older-than-days", "0", "--forget-missing")
    assert "folder that nothing needs removed" in done[1]
    assert not os.path.exists(orphan)
    for days in ("-1", "nan", "1e300"):
        code, _, err = cli("repair", root, "--remove-orphans", "--older-than-days", days)
        assert code == 2
        assert "older" in err


def test_repair_tells_which_tables_are_missing(cli, namespace):
    row = namespace.partitions().to_pylist()[0]
    shutil.rmtree(f"{namespace.uri}/{row['location']}")
    code, out, _ = cli("repair", namespace.uri)
    assert code == 0
    assert "nothing was repaired" in out
    assert f"row of a missing table left: {row['object_id']}" in out
    assert "--forget-missing" in out
    assert "row of a missing table removed" in cli("repair", namespace.uri, "--forget-missing")[1]
    assert "nothing to repair" in cli("repair", namespace.uri)[1]


def test_tables_are_verified(cli, root):
    assert cli("verify", root / "trips.lance")[0] == 0
    for command in ("verify", "repair"):
        code, out, err = cli(command, root / "nowhere")
        assert (code, out) == (1, "")
        assert "nowhere" in err
    assert cli("repair", root)[0] == 1


def test_inspect(cli, namespace):
    code, out, _ = cli("inspect", namespace.uri)
    assert code == 0
    for title in ("columns", "specs", "partitions", "versions"):
        assert f"\n\n{title}\n" in out
    code, out, _ = cli("inspect", namespace.uri, "--format", "json", "--limit", "1")
    told = json.loads(out)
    assert told["namespace"][0]["partitions"] == 2
    assert [row["kind"] for row in told["partitions"]] == ["a"]
    assert [row["version"] for row in told["versions"]] == [2]
    assert told["specs"][0]["transform"] == "identity"
    assert cli("inspect", namespace.uri, "--version", "1")[0] == 0
    for version, expected in (("9", 1), ("tag", 2)):
        assert cli("inspect", namespace.uri, "--version", version)[0] == expected
