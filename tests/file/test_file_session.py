"""`LanceFileSession`, beside pylance's on the same folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance.file
import pyarrow as pa
import pytest

import lance_df.file
from lance_df.errors import InvalidInputError, LanceError, NotFoundError

ROWS = pa.table({"a": [1, 2], "b": ["x", None]})
SESSIONS: list[Any] = [lance.file.LanceFileSession, lance_df.file.LanceFileSession]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    session = lance_df.file.LanceFileSession(tmp_path / "s")
    for path, version in (("x/a.lance", None), ("x/y/b.lance", "2.0"), ("c.lance", "2.1")):
        with session.open_writer(path, schema=ROWS.schema, version=version) as writer:
            writer.write_batch(ROWS)
    return tmp_path / "s"


@pytest.mark.parametrize("make", SESSIONS, ids=["pylance", "ours"])
def test_both_see_the_same(folder: Path, make: Any) -> None:
    session = make(str(folder))
    assert sorted(session.list()) == ["c.lance", "x/a.lance", "x/y/b.lance"]
    assert sorted(session.list("x")) == ["x/a.lance", "x/y/b.lance"]
    assert session.list("nothing") == []
    found = [session.list_with_delimiter(path) for path in (None, "x", "nothing")]
    listed = [(each.common_prefixes, each.objects) for each in found]
    assert listed == [(["x"], ["c.lance"]), (["x/y"], ["x/a.lance"]), ([], [])]
    assert [session.contains(path) for path in ("x/a.lance", "x", "q")] == [True, False, False]
    for path in session.list():
        assert session.open_reader(path).read_all().to_table().to_pydict() == ROWS.to_pydict()
    assert session.open_reader("c.lance", ["b"]).read_all().to_table().column_names == ["b"]
    content = (folder / "c.lance").read_bytes()
    assert session.read_range("c.lance", 3, 10) == content[3:13]
    assert session.read_range("c.lance", len(content), 0) == b""
    assert session.delete_file("c.lance") is None
    assert not (folder / "c.lance").exists()


def test_files_are_copied(folder: Path, tmp_path: Path) -> None:
    session = lance_df.file.LanceFileSession(f"memory://{tmp_path.name}/session")
    source = folder / "x/a.lance"
    session.upload_file(source, "d/e.lance")
    session.upload_file(source, "d/e.lance")
    assert session.list() == ["d/e.lance"]
    (tmp_path / "out").write_bytes(b"old")
    session.download_file("d/e.lance", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == source.read_bytes()


FAILURES: dict[str, tuple[Callable[[Any, Path], object], type[LanceError]]] = {
    "range beyond the end": (lambda session, _: session.read_range("c.lance", 0, 10**9), InvalidInputError),
    "range before the start": (lambda session, _: session.read_range("c.lance", -1, 2), InvalidInputError),
    "range of nothing": (lambda session, _: session.read_range("q", 0, 1), NotFoundError),
    "delete nothing": (lambda session, _: session.delete_file("q"), NotFoundError),
    "upload nothing": (lambda session, out: session.upload_file(out, "q"), NotFoundError),
    "download nothing": (lambda session, out: session.download_file("q", out), NotFoundError),
    "read nothing": (lambda session, _: session.open_reader("q"), NotFoundError),
    "outside": (lambda session, _: session.contains("../s/c.lance"), InvalidInputError),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_leave_nothing(folder: Path, tmp_path: Path, case: str) -> None:
    session = lance_df.file.LanceFileSession(folder)
    call, error = FAILURES[case]
    with pytest.raises(error):
        call(session, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        "a.lance",
        "b.lance",
        "c.lance",
    ]
