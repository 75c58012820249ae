"""`DirectoryNamespace` opened by `lance_namespace.connect`, beside pylance's."""

from __future__ import annotations

from pathlib import Path

import lance_namespace
import pyarrow as pa
import pytest

import lance_df

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.mark.parametrize("name", ["lance_df.DirectoryNamespace", "lance_df.namespace.DirectoryNamespace"])
def test_connect(tmp_path: Path, name: str) -> None:
    ours = lance_namespace.connect(name, {"root": str(tmp_path), "manifest_enabled": "true"})
    assert isinstance(ours, lance_df.DirectoryNamespace)
    assert isinstance(ours, lance_namespace.LanceNamespace)
    theirs = lance_namespace.connect("dir", {"root": str(tmp_path)})
    assert ours.namespace_id() == theirs.namespace_id()
    ours.create_namespace(lance_namespace.CreateNamespaceRequest(id=["sales"]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    request = lance_namespace.CreateTableRequest(id=["sales", "orders"])
    ours.create_table(request, sink.getvalue().to_pybytes())
    described = theirs.describe_table(lance_namespace.DescribeTableRequest(id=["sales", "orders"]))
    assert lance_df.dataset(described.location).to_table().equals(ROWS)


def test_properties(tmp_path: Path) -> None:
    listed = lance_df.DirectoryNamespace(root=tmp_path, dir_listing_enabled="false", session=None)
    lance_df.write_dataset(ROWS, tmp_path / "t.lance")
    assert listed.list_tables().tables == []
    assert lance_df.DirectoryNamespace(tmp_path, dir_listing_enabled="True").list_tables().tables == ["t"]
    with pytest.raises(lance_df.InvalidInputError, match="unknown property 'rooot'"):
        lance_df.DirectoryNamespace(tmp_path, rooot="x")
    with pytest.raises(lance_df.InvalidInputError, match="manifest_enabled is 'maybe'"):
        lance_df.DirectoryNamespace(tmp_path, manifest_enabled="maybe")
    with pytest.raises(lance_df.UnsupportedFeatureError, match="credential_vendor"):
        lance_df.DirectoryNamespace(tmp_path, **{"credential_vendor.enabled": "true"})


def test_storage_properties_are_storage_options(tmp_path: Path) -> None:
    from lance_df.api.namespaces.client import storage_properties

    given = {"storage.region": "us-east-1", "ops_metrics_enabled": "true"}
    assert storage_properties(given) == {"region": "us-east-1"}
    assert lance_df.DirectoryNamespace(str(tmp_path), **{"storage.any": "x"}).list_tables().tables == []


@pytest.mark.parametrize(
    ("location", "message"),
    [("s3://b/t.lance", "URIs"), ("/t.lance", "paths are"), ("../t.lance", "traversal")],
)
def test_locations_that_leave_the_root(tmp_path: Path, location: str, message: str) -> None:
    with pytest.raises(lance_df.InvalidInputError, match=f"{message}.* not allowed"):
        lance_df.DirectoryNamespace(tmp_path).register_table("t", location)
