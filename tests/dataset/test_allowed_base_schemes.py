"""Base paths and blobs in other stores than the table: opened when allowed."""

from __future__ import annotations

import pickle
import socket
import threading
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa
import pytest
from manifest_edits import edit_manifest

import lance_df
from lance_df import DatasetBasePath
from lance_df.blob import blob_field
from lance_df.errors import (
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture
def server() -> Iterator[tuple[str, list[bytes]]]:
    """A port, as ``127.0.0.1:port``, and what was sent there."""
    received: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    received.append(connection.recv(65536))
                    connection.sendall(_NOT_FOUND)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", received
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": range(10)}), path)
    return path


def with_base(table: str, path: str) -> None:
    def refer(manifest: Any) -> None:
        manifest.base_paths.add(id=5, path=path, is_dataset_root=True)
        manifest.fragments[0].files[0].base_id = 5

    edit_manifest(table, refer)


@pytest.mark.parametrize("names", [7, ["a b"], ["http://"], "http,,", [None], [""]])
def test_allowed_schemes_that_are_no_names(table: str, names: Any):
    with pytest.raises(InvalidInputError, match="allowed_base_schemes"):
        lance_df.dataset(table, allowed_base_schemes=names)


@pytest.mark.parametrize("prefix", ["http://", "HTTP://", "simplecache::http://", "filecache::http://"])
def test_no_request_is_sent_for_a_base_path(table: str, server: tuple[str, list[bytes]], prefix: str):
    host, received = server
    with_base(table, f"{prefix}{host}/base")
    for read in (
        lambda: lance_df.dataset(table).to_table(),
        lambda: lance_df.dataset(table).take([0]),
        lambda: lance_df.connect().sql(f"select * from lance_scan('{table}')").to_arrow_table(),
    ):
        with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
            read()
    assert received == []


def test_a_reference_file_system_is_never_made(table: str, tmp_path: Path):
    (tmp_path / "refs.json").write_text(
        '{"version": 1, "templates": {"f": "{{ 1 }}"}, "refs": {"data/x": ["{{f}}"]}}'
    )
    with_base(table, f"reference::file://{tmp_path}/refs.json")
    for schemes in (None, ["reference", "file"]):
        with pytest.raises(UnsupportedFeatureError, match="chain"):
            lance_df.dataset(table, allowed_base_schemes=schemes).to_table()


def test_allowed_schemes_are_opened_everywhere(table: str, tmp_path: Path):
    memory = fsspec.filesystem("memory")
    memory.put(table, "/allowed-schemes/t.lance", recursive=True)
    try:
        with_base(table, "memory://allowed-schemes/t.lance")
        with pytest.raises(InvalidInputError, match=r"open the table with allowed_base_schemes=\['memory'\]"):
            lance_df.dataset(table).to_table()
        data = lance_df.dataset(table, allowed_base_schemes=["Memory"])
        assert data.count_rows("a > 3") == 6
        assert pickle.loads(pickle.dumps(data)).to_table().num_rows == 10
        assert data.checkout_version(data.version).to_table().num_rows == 10
        assert (
            lance_df.dataset(table, storage_options={"allowed_base_schemes": "memory"}).to_table().num_rows
            == 10
        )
        text = "select sum(a) as s from t"
        folder = lance_df.connect(tmp_path, allowed_base_schemes=["memory"])
        assert folder.sql(text).to_pylist() == [{"s": 45}]
        with pytest.raises(InvalidInputError):
            lance_df.connect(tmp_path).sql(text).to_pylist()
        named = lance_df.connect()
        lance_df.register(named, "t", table, allowed_base_schemes=["memory"])
        assert named.sql(text).to_pylist() == [{"s": 45}]
        lance_df.write_dataset(pa.table({"a": [99]}), table, mode="append", allowed_base_schemes=["memory"])
        assert data.checkout_latest() is None or data.to_table().num_rows in (10, 11)
    finally:
        memory.rm("/allowed-schemes", recursive=True)


def test_members_of_a_namespace_follow_the_rule(tmp_path: Path):
    schema = pa.schema([("a", pa.int64())])
    root = str(tmp_path / "ns")
    made = lance_df.PartitionedNamespace.create(root, schema, [lance_df.partition.identity("a")])
    made.append(pa.table({"a": [1, 2]}))
    (member, *_) = [each for each in (tmp_path / "ns").iterdir() if each.name != "__manifest"]
    lance_df.DirectoryNamespace(root, allowed_base_schemes=["memory"])
    memory = fsspec.filesystem("memory")
    try:
        for path in (tmp_path / "ns").rglob("data/*.lance"):
            memory.put(str(path), f"/member-schemes/data/{path.name}")
        with_base(str(member), "memory://member-schemes")
        with pytest.raises(InvalidInputError, match="allowed_base_schemes"):
            lance_df.PartitionedNamespace.open(root).to_table()
        opened = lance_df.PartitionedNamespace.open(root, allowed_base_schemes=["memory"])
        assert sorted(opened.to_table()["a"].to_pylist()) == [1, 2]
    finally:
        memory.rm("/member-schemes", recursive=True)


def test_a_base_path_of_the_call_is_trusted_in_this_process_only(tmp_path: Path):
    memory = fsspec.filesystem("memory")
    path = tmp_path / "t"
    try:
        data = lance_df.write_dataset(
            pa.table({"a": [1, 2]}),
            path,
            initial_bases=[DatasetBasePath("memory://trusted-base", "m")],
            target_bases=["m"],
        )
        assert data.to_table().num_rows == 2
        with pytest.raises(InvalidInputError, match="allowed_base_schemes"):
            lance_df.dataset(path).to_table()
    finally:
        if memory.exists("/trusted-base"):
            memory.rm("/trusted-base", recursive=True)
    with pytest.raises(InvalidInputError, match="chain"):
        lance_df.write_dataset(
            pa.table({"a": [1]}),
            tmp_path / "u",
            initial_bases=[DatasetBasePath("simplecache::memory://trusted-base", "m")],
        )


def test_a_clone_in_another_store_reads_its_source(table: str):
    memory = fsspec.filesystem("memory")
    uri = "memory://clone-schemes/t.lance"
    try:
        clone = lance_df.dataset(table).shallow_clone(uri)
        assert clone.to_table().num_rows == 10
        with pytest.raises(InvalidInputError):
            lance_df.dataset(uri).to_table()
        assert lance_df.dataset(uri, allowed_base_schemes=["file"]).to_table().num_rows == 10
    finally:
        memory.rm("/clone-schemes", recursive=True)


def test_external_blobs_follow_the_rule(tmp_path: Path, server: tuple[str, list[bytes]]):
    host, received = server
    schema = pa.schema([blob_field("b")])
    for number, uri in enumerate([f"http://{host}/x", f"zip://x::http://{host}/x", "memory://x/y"]):
        path = tmp_path / f"t{number}"
        with pytest.raises(LanceError):
            lance_df.write_dataset(
                pa.table({"b": lance_df.blob_array([lance_df.Blob.from_uri(uri)])}, schema), path
            )
        data = lance_df.write_dataset(
            pa.table({"b": lance_df.blob_array([lance_df.Blob.from_uri(uri)])}, schema),
            path,
            allow_external_blob_outside_bases=True,
        )
        with pytest.raises((InvalidInputError, UnsupportedFeatureError)):
            data.take_blobs("b", indices=[0])[0].readall()
    assert received == []


@pytest.mark.parametrize(
    ("uri", "error"),
    [
        ("http://127.0.0.1:1/x", LanceError),
        ("reference://x", InvalidInputError),
        ("zip://x", LanceError),
        ("simplecache::memory://no-such", NotFoundError),
        ("reference::file:///no/such/file", LanceError),
        ("data:x", LanceError),
    ],
)
def test_what_a_caller_names_fails_with_an_error_of_ours(uri: str, error: type[Exception]):
    with pytest.raises(error):
        lance_df.dataset(uri)


@pytest.mark.parametrize("path", ["file:///a%00b", "file:///a%00"])
def test_bytes_that_no_path_has_are_refused_after_decoding(table: str, path: str):
    def to_path(manifest: Any) -> None:
        manifest.base_paths.add(id=1, path=path, is_dataset_root=True)
        manifest.fragments[0].files[0].base_id = 1

    edit_manifest(table, to_path)
    with pytest.raises(InvalidInputError, match="expected a path or URL"):
        lance_df.dataset(table).to_table()
