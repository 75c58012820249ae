"""Errors of stores say what to do: web servers do not list, options are unknown, credentials lack."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datafusion import SessionContext

import lance_df
from lance_df.errors import (
    InvalidInputError,
    LanceError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.storage import open_location
from lance_df.storage.options import s3_options as as_s3fs
from lance_df.storage.sink import cannot_be_written
from lance_df.storage.translate import translate_errors


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def send_head(self) -> Any:
        """Refuse files of one folder."""
        if self.path.startswith("/forbidden"):
            return self.send_error(403)
        return super().send_head()


@pytest.fixture(scope="module")
def web_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def web(web_folder: Path) -> Iterator[str]:
    folder = web_folder
    lance_df.write_dataset(pa.table({"a": [1, 2]}), folder / "t.lance")
    pq.write_table(pa.table({"a": [3]}), folder / "rows.parquet")
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_web_servers_do_not_list(web: str, tmp_path: Path) -> None:
    for call in (
        lambda: lance_df.dataset(f"{web}/t.lance"),
        lambda: lance_df.connect(web),
        lambda: lance_df.PartitionedNamespace.open(f"{web}/t.lance"),
        lambda: lance_df.write_dataset(f"{web}/*.parquet", tmp_path / "t.lance"),
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"cannot (list|be listed)"):
            call()
    with pytest.raises(UnsupportedFeatureError, match=r"version=3"):
        lance_df.dataset(f"{web}/t.lance")
    assert lance_df.dataset(f"{web}/t.lance", version=1).to_table()["a"].to_pylist() == [1, 2]
    assert lance_df.write_dataset(f"{web}/rows.parquet", tmp_path / "t.lance").count_rows() == 1


def test_datasets_on_web_servers(web: str) -> None:
    dataset = lance_df.dataset(f"{web}/t.lance", version=1)
    context = SessionContext()
    lance_df.register(context, "t", dataset)
    assert context.sql("SELECT sum(a) AS total FROM t").to_pydict() == {"total": [3]}
    for call in (
        lambda: lance_df.dataset(f"{web}/t.lance", version=99),
        lambda: lance_df.dataset(f"{web}/other.lance", version=1),
    ):
        with pytest.raises(VersionNotFoundError, match=r"does not exist, or there is no table"):
            call()
    with pytest.raises(UnsupportedFeatureError, match="a web server can only be read"):
        dataset.delete("a = 1")


def test_web_servers_that_ignore_ranges(web: str, web_folder: Path) -> None:
    rows = pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 50_000)})
    lance_df.write_dataset(rows, web_folder / "large.lance")
    assert lance_df.dataset(f"{web}/large.lance", version=1).to_table().equals(rows)


def test_the_status_of_a_refusal_is_in_the_message(web: str) -> None:
    with pytest.raises(StorageError, match="HTTP status 403"):
        lance_df.dataset(f"{web}/forbidden/t.lance", version=1)


@pytest.mark.parametrize("kind", ["deep_clone", "shallow_clone"])
def test_clones_of_tables_on_web_servers(web: str, tmp_path: Path, kind: str) -> None:
    """Clean-ups announce themselves by files that would have to be listed, but none runs on a web server."""
    source = lance_df.dataset(f"{web}/t.lance", version=1)
    clone = getattr(source, kind)(tmp_path / "clone.lance")
    assert clone.to_table()["a"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    ("uri", "missing"),
    [("memory:///a/b.lance", "its folder does not exist"), ("s3://a/b.lance", "'a' does not exist in the")],
)
def test_places_that_cannot_be_written(uri: str, missing: str) -> None:
    """Only in object stores, the first part of a path is a bucket."""
    assert f"{uri}: cannot be written; {missing}" in str(cannot_be_written(open_location(uri)))


@pytest.mark.parametrize(
    ("options", "name", "near"),
    [
        ({"access_key": "secret-value"}, "access_key", "access_key_id"),
        ({"aws_endpont": "secret-value"}, "aws_endpont", "endpoint"),
        ({"regoin": "x", "key": "k"}, "regoin", "region"),
    ],
)
def test_unknown_options_are_named(options: dict[str, Any], name: str, near: str) -> None:
    with pytest.raises(
        InvalidInputError, match=f"no storage option '{name}' .did you mean '{near}'"
    ) as raised:
        lance_df.dataset("s3://bucket/t.lance", storage_options=options)
    assert "secret-value" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({3: "secret-value"}, "names of storage options must be strings, got int"),
        ({"aws_region": 3}, "the storage option 'aws_region' must be text, got int"),
        ({"secret": b"secret-value"}, "the storage option 'secret' must be text, got bytes"),
        ({"client_kwargs": "secret-value"}, "the storage option 'client_kwargs' must be a mapping, got str"),
        ("secret-value", "storage_options must be a dict, got str"),
    ],
)
def test_options_of_other_types_are_named(options: Any, message: str) -> None:
    for opened in (
        lambda: lance_df.dataset("s3://bucket/t.lance", storage_options=options),
        lambda: lance_df.PartitionedNamespace.open("s3://bucket/n", storage_options=options),
        lambda: lance_df.connect("s3://bucket", storage_options=options),
    ):
        with pytest.raises(InvalidInputError, match=message) as raised:
            opened()
        assert "secret-value" not in str(raised.value)


def test_options_of_lance_that_tune_are_no_error() -> None:
    assert as_s3fs({"timeout": "3s", "aws_conditional_put": "etag", "client_max_retries": "3"}) == {}


def test_lacking_credentials_are_explained(tmp_path: Path) -> None:
    code = """
import lance_df
try:
    lance_df.dataset("s3://bucket/t.lance", storage_options={"endpoint": "http://127.0.0.1:1"})
except lance_df.StorageError as err:
    print(err)
"""
    environment = {
        "AWS_EC2_METADATA_DISABLED": "true",
        "HOME": str(tmp_path),
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=environment
    )
    for part in ("no credentials found", "access_key_id", "AWS_ACCESS_KEY_ID", "skip_signature"):
        assert part in done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["EndpointConnectionError", "ConnectTimeoutError"])
def test_servers_that_do_not_answer_are_named(kind: str) -> None:
    import botocore.exceptions

    url = "https://user:s3cr3t@store.example:9000/bucket?token=s3cr3t"
    error = getattr(botocore.exceptions, kind)(endpoint_url=url, error="s3cr3t")
    with pytest.raises(StorageError) as raised, translate_errors("s3://bucket/t"):
        raise error
    assert f"{kind}: https://store.example:9000 does not answer" in str(raised.value)
    assert "endpoint_url" in str(raised.value)
    assert "s3cr3t" not in str(raised.value)


def test_refused_access_is_explained() -> None:
    with pytest.raises(StorageError, match="access is denied; check"), translate_errors("s3://bucket/t"):
        raise PermissionError("AccessDenied: s3cr3t")
    with pytest.raises(LanceError) as raised, translate_errors("memory://t"):
        raise PermissionError("AccessDenied: s3cr3t")
    assert "s3cr3t" not in str(raised.value)
