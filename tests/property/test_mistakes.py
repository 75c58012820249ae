"""What people get wrong: each mistake is one typed error that says what was found and what is expected."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from table_cases import build

import lance_df
from lance_df.cli import main
from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    MissingDependencyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.file import LanceFileReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FAR = 2**70


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    build("branched", folder).rename(folder / "t.lance")
    (folder / "file.txt").write_text("no table")
    (folder / "empty").mkdir()
    (folder / "zero.lance").touch()
    pq.write_table(pa.table({"a": [1]}), folder / "p.parquet")
    return folder


# -- places -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["nowhere", "file.txt", "empty", "zero.lance", "p.parquet", "t.lance/data", ""]
)
def test_places_without_a_table(root: Path, name: str):
    with pytest.raises(DatasetNotFoundError, match=r"table does not exist|not a Lance table") as caught:
        lance_df.dataset(root / name)
    assert str(root / name) in str(caught.value)
    with pytest.raises(DatasetNotFoundError):
        lance_df.register(lance_df.SessionContext(), "t", root / name)


@pytest.mark.parametrize("uri", [5, b"/tmp/x", ["a"], None, "", "a\0b", object()])
def test_what_is_no_place(uri: Any):
    with pytest.raises(InvalidInputError, match="a path or URL"):
        lance_df.dataset(uri)
    if uri is not None:
        with pytest.raises(InvalidInputError, match="expected a path or URL"):
            LanceFileReader(uri)
        with pytest.raises(InvalidInputError, match="expected a path or URL"):
            lance_df.connect(uri)


def test_unknown_schemes():
    with pytest.raises(InvalidInputError, match=r"weird://.*unknown scheme"):
        lance_df.dataset("weird://bucket/t.lance")


def test_schemes_whose_package_is_missing(monkeypatch: pytest.MonkeyPatch):
    import fsspec

    def missing(*args: Any, **kwargs: Any) -> Any:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", missing)
    with pytest.raises(MissingDependencyError, match=r"s3:// requires .*lance_df\[s3\]"):
        lance_df.dataset("s3://bucket/t.lance")


def test_folders_that_cannot_be_read(root: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise PermissionError(13, "Permission denied", "secret detail")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(StorageError, match="Permission denied") as caught:
        lance_df.dataset(root / "t.lance")
    assert str(root / "t.lance") in str(caught.value)


def test_single_files(root: Path):
    for name, kind in (
        ("nowhere", NotFoundError),
        ("file.txt", CorruptDataError),
        ("zero.lance", CorruptDataError),
        ("p.parquet", CorruptDataError),
        ("empty", CorruptDataError),
    ):
        with pytest.raises(kind) as caught:
            LanceFileReader(str(root / name))
        assert str(root / name) in str(caught.value)


def test_folders_of_tables(root: Path):
    with pytest.raises(NotFoundError, match="folder does not exist"):
        lance_df.connect(root / "nowhere")


# -- versions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "kind", "text"),
    [
        (99, VersionNotFoundError, "version 99 does not exist; the versions are 1 to 2"),
        (0, VersionNotFoundError, "the versions are 1 to 2"),
        ("nix", VersionNotFoundError, "tag 'nix' does not exist; the tags are 'first'"),
        ("../first", VersionNotFoundError, "tag '../first' does not exist"),
        (("nix", None), VersionNotFoundError, "branch 'nix' does not exist; the branches are 'main', 'side'"),
        (("side", 77), VersionNotFoundError, "version 77 does not exist; the versions are 1 to 2"),
        (-1, InvalidInputError, "got -1"),
        (FAR, InvalidInputError, str(FAR)),
        (1.5, InvalidInputError, "1.5"),
        (True, InvalidInputError, "bool"),
        ({}, InvalidInputError, "{}"),
        ((1, 2, 3), InvalidInputError, "(1, 2, 3)"),
    ],
    ids=repr,
)
def test_versions(root: Path, version: Any, kind: type[LanceError], text: str):
    with pytest.raises(kind) as caught:
        lance_df.dataset(root / "t.lance", version=version)
    assert text in str(caught.value)


@pytest.mark.parametrize("asof", ["yesterday", 5, "1999-01-01"])
def test_times(root: Path, asof: Any):
    with pytest.raises((InvalidInputError, VersionNotFoundError)):
        lance_df.dataset(root / "t.lance", asof=asof)


# -- calls --------------------------------------------------------------------------------------------------

_CALLS: dict[str, tuple[type[LanceError], Callable[[Any], Any]]] = {
    "unknown column": (ColumnNotFoundError, lambda t: t.to_table(columns=["nix"])),
    "field of a number": (ColumnNotFoundError, lambda t: t.to_table(columns=["id.x"])),
    "column by number": (InvalidInputError, lambda t: t.to_table(columns=[1])),
    "columns as text": (InvalidInputError, lambda t: t.to_table(columns="id")),
    "columns as a number": (InvalidInputError, lambda t: t.to_table(columns=5)),
    "column twice": (InvalidInputError, lambda t: t.to_table(columns=["id", "id"])),
    "expression of an unknown column": (ColumnNotFoundError, lambda t: t.to_table(columns={"x": "nix + 1"})),
    "half an expression": (InvalidInputError, lambda t: t.to_table(columns={"x": "id +"})),
    "expression as a number": (InvalidInputError, lambda t: t.to_table(columns={"x": 5})),
    "half a filter": (InvalidInputError, lambda t: t.to_table(filter="id >")),
    "filter by an unknown column": (ColumnNotFoundError, lambda t: t.to_table(filter="nix > 3")),
    "filter as a number": (InvalidInputError, lambda t: t.to_table(filter=5)),
    "filter as bytes": (InvalidInputError, lambda t: t.to_table(filter=b"id > 1")),
    "filter by text": (InvalidInputError, lambda t: t.to_table(filter="id > 'abc'")),
    "filter that is a number": (InvalidInputError, lambda t: t.to_table(filter="id + 1")),
    "filter that counts": (InvalidInputError, lambda t: t.to_table(filter="count(*) > 1")),
    "filter with a statement": (InvalidInputError, lambda t: t.to_table(filter="id > 1; DROP TABLE t")),
    "empty filter": (InvalidInputError, lambda t: t.to_table(filter="")),
    "filter that divides by zero": (InvalidInputError, lambda t: t.to_table(filter="1 / (id - id) = 1")),
    "filter too deep": (InvalidInputError, lambda t: t.to_table(filter="(" * 5000 + "id>1" + ")" * 5000)),
    "filter with half a character": (InvalidInputError, lambda t: t.to_table(filter="word = '\ud800'")),
    "pyarrow filter": (ColumnNotFoundError, lambda t: t.to_table(filter=pc.field("nix") > 3)),
    "pyarrow filter of types": (InvalidInputError, lambda t: t.to_table(filter=pc.field("id") > "abc")),
    "negative limit": (InvalidInputError, lambda t: t.to_table(limit=-1)),
    "negative offset": (InvalidInputError, lambda t: t.to_table(offset=-1)),
    "fraction of a limit": (InvalidInputError, lambda t: t.to_table(limit=1.5)),
    "limit as text": (InvalidInputError, lambda t: t.to_table(limit="5")),
    "limit far away": (InvalidInputError, lambda t: t.to_table(limit=FAR)),
    "no batch size": (InvalidInputError, lambda t: t.to_table(batch_size=0)),
    "negative head": (InvalidInputError, lambda t: t.head(-1)),
    "unknown option": (InvalidInputError, lambda t: t.to_table(bogus=1)),
    "vector search": (UnsupportedFeatureError, lambda t: t.to_table(nearest={"column": "x"})),
    "fragments as numbers": (InvalidInputError, lambda t: t.to_table(fragments=[1])),
    "fragments as a number": (InvalidInputError, lambda t: t.to_table(fragments=3)),
    "sort by an unknown column": (ColumnNotFoundError, lambda t: t.to_table(order_by=["nix"])),
    "take text": (InvalidInputError, lambda t: t.take(["a"])),
    "take row -1": (InvalidInputError, lambda t: t.take([-1])),
    "take beyond": (InvalidInputError, lambda t: t.take([10**6])),
    "take far": (InvalidInputError, lambda t: t.take([FAR])),
    "take none": (InvalidInputError, lambda t: t.take(None)),
    "take null": (InvalidInputError, lambda t: t.take(pa.array([None], pa.int64()))),
    "take an unknown column": (ColumnNotFoundError, lambda t: t.take([0], columns=["nix"])),
    "too large a sample": (InvalidInputError, lambda t: t.sample(10**6)),
    "sample as text": (InvalidInputError, lambda t: t.sample("x")),
    "slice from before": (InvalidInputError, lambda t: t.slice(-5, 3)),
    "slice as text": (InvalidInputError, lambda t: t.slice("a", "b")),
    "fragment as text": (InvalidInputError, lambda t: t.get_fragment("a")),
    "transaction of no version": (VersionNotFoundError, lambda t: t.read_transaction(99)),
    "transaction as text": (InvalidInputError, lambda t: t.read_transaction("a")),
    "checkout": (VersionNotFoundError, lambda t: t.checkout_version(99)),
    "tag": (VersionNotFoundError, lambda t: t.tags.get_version("nix")),
    "default options": (
        InvalidInputError,
        lambda t: lance_df.dataset(t.uri, default_scan_options=5).to_table(),
    ),
    "argument of dataset()": (InvalidInputError, lambda t: lance_df.dataset(t.uri, foo=1)),
}


@pytest.mark.parametrize("mistake", list(_CALLS))
def test_calls(root: Path, mistake: str):
    kind, call = _CALLS[mistake]
    with pytest.raises(kind) as caught:
        call(lance_df.dataset(str(root / "t.lance")))
    assert str(caught.value)


def test_fragments_that_are_not_there(root: Path):
    table = lance_df.dataset(root / "t.lance")
    assert [table.get_fragment(number) for number in (99, -1, FAR)] == [None] * 3


# -- SQL ----------------------------------------------------------------------------------------------------


@pytest.mark.engine
@pytest.mark.parametrize(
    ("query", "kind", "text"),
    [
        ("SELECT * FROM nix", DatasetNotFoundError, "nix"),
        ("SELECT nix FROM t", ColumnNotFoundError, "nix"),
        ("SELEC 1", InvalidInputError, "SELEC"),
        ("", InvalidInputError, "No SQL statements"),
        ("SELECT 1; SELECT 2", UnsupportedFeatureError, "runs one statement"),
        ("SELECT no_function(id) FROM t", InvalidInputError, "no_function"),
        ("SELECT murmur3() FROM t", InvalidInputError, "murmur3"),
        ("SELECT cast(word AS INT) FROM t", InvalidInputError, "Cannot cast string"),
        ("SELECT 1 / (id - id) FROM t", InvalidInputError, "1 / (id - id)"),
        ("SELECT * FROM lance_scan('/nowhere')", DatasetNotFoundError, "/nowhere"),
        ("SELECT * FROM lance_scan(5)", InvalidInputError, "path in quotes"),
        ("CREATE EXTERNAL TABLE z STORED AS LANCE LOCATION '/nowhere'", DatasetNotFoundError, "/nowhere"),
        ("CREATE EXTERNAL TABLE z STORED AS LANCE", InvalidInputError, "LOCATION"),
        ("INSERT INTO t VALUES (1)", InvalidInputError, "its query returns 1"),
        ("INSERT INTO t VALUES ('a', 'a')", InvalidInputError, "INSERT INTO t"),
        ('SELECT * FROM "zero"', DatasetNotFoundError, "zero"),
        ("SELECT '\ud800'", InvalidInputError, "surrogates"),
        (None, InvalidInputError, "got None"),
        (5, InvalidInputError, "got 5"),
    ],
)
def test_sql(root: Path, query: Any, kind: type[LanceError], text: str):
    ctx = lance_df.connect(root)
    with pytest.raises(kind) as caught:
        ctx.sql(query).to_pylist()
    assert text in str(caught.value)


@pytest.mark.engine
@pytest.mark.parametrize(
    ("ctx", "name", "source"),
    [
        (None, "t", "."),
        (5, "t", "."),
        ("own", "a b", "."),
        ("own", "", "."),
        ("own", 5, "."),
        ("own", "t", 5),
        ("own", "a.b.c.d", "."),
    ],
)
def test_register(root: Path, ctx: Any, name: Any, source: Any):
    context = lance_df.SessionContext() if ctx == "own" else ctx
    place = root / "t.lance" if source == "." else source
    with pytest.raises(InvalidInputError):
        lance_df.register(context, name, place)


@pytest.mark.engine
def test_enable_what_is_no_context():
    with pytest.raises(InvalidInputError, match=r"expected a datafusion\.SessionContext, got NoneType"):
        lance_df.enable(None)  # type: ignore[arg-type]


# -- the command line ---------------------------------------------------------------------------------------


def test_the_command_line_says_it_in_one_line(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    broken = tmp_path / "broken.lance"
    shutil.copytree(root / "t.lance", broken)
    for file in (broken / "data").iterdir():
        file.write_bytes(b"gone")
    for arguments, text in (
        (("sql", "SELECT * FROM nix", str(root)), "nix"),
        (("sql", "SELECT 1 / (id - id) FROM t", str(root)), "Divide by zero"),
        (("sql", "SELECT * FROM broken", str(tmp_path)), "broken.lance/data"),
        (("sql", "SELECT 1", str(root / "nowhere")), "nowhere"),
        (("inspect", str(root / "p.parquet")), "p.parquet"),
        (("inspect", str(broken)), "broken.lance/data"),
        (("explain", "SELECT nix FROM t", str(root)), "nix"),
        (("inspect", "weird://x/y"), "weird://"),
    ):
        assert main(arguments) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("lance-df: error: ")
        assert text in line


@pytest.mark.engine
def test_a_failed_query_ends_the_process_in_order(root: Path):
    """DataFusion's workers have streams in hand when a query fails; they must not outlive the interpreter."""
    command = [sys.executable, "-m", "lance_df.cli", "sql", "SELECT 1 / (id - id) FROM t", str(root)]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout == ""
        assert done.stderr.startswith("lance-df: error: ")
        assert done.stderr.count("\n") == 1
        assert done.returncode == 1


def test_the_command_line_explains_its_usage(capsys: pytest.CaptureFixture[str]):
    for arguments in ((), ("no-such-command",), ("sql",), ("sql", "SELECT 1", "--format", "xml")):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        assert "usage:" in capsys.readouterr().err
