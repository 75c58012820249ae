"""Storage options are nobody's business: no message, repr, log or traceback holds them."""

from __future__ import annotations

import logging
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from table_cases import rows

import lance_df
from lance_df.errors import LanceError
from lance_df.file import LanceFileReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET = "hunter2-s3cr3t"
OPTIONS = {"password": SECRET}


class LockedStore(MemoryFileSystem):
    """A store whose errors repeat its options, as those of some libraries do."""

    protocol = "locked"
    store: dict[str, Any] = {}  # noqa: RUF012 - as the base class has it
    pseudo_dirs = [""]  # noqa: RUF012
    fails = False

    def __init__(self, password: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.password = password

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(path.removeprefix("locked://")))

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        self._check()
        return super()._open(path, mode, **options)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        self._check()
        return super().ls(path, detail, **options)

    def cat_file(self, path: str, *args: Any, **options: Any) -> bytes:
        self._check()
        return super().cat_file(path, *args, **options)

    def _check(self) -> None:
        if self.fails:
            raise RuntimeError(f"access denied for {self.password}")


@pytest.fixture
def uri(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    import fsspec

    fsspec.register_implementation("locked", LockedStore, clobber=True)
    monkeypatch.setattr(LockedStore, "store", {})
    monkeypatch.setattr(LockedStore, "pseudo_dirs", [""])
    local = MemoryFileSystem()
    lance_df.write_dataset(rows(0, 20), "memory://secrets/t.lance")
    for path in local.find("/secrets"):
        LockedStore.store[path] = local.store[path]
    LockedStore.pseudo_dirs += [path for path in local.pseudo_dirs if path]
    yield "locked://secrets/t.lance"
    local.rm("/secrets", recursive=True)


def test_what_works_shows_no_secret(uri: str, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    table = lance_df.dataset(uri, storage_options=OPTIONS)
    ctx = lance_df.connect("locked://secrets", storage_options=OPTIONS)
    lance_df.register(ctx, "other", uri, storage_options=OPTIONS)
    frame = ctx.sql("SELECT count(*) FROM t JOIN other USING (id)")
    assert frame.to_pylist() == [{"count(*)": 20}]
    shown = [
        table,
        table.scanner(),
        table._table,
        table._table.location,
        table.get_fragments(),
        table.tags,
        table.branches,
        table.schema,
        table.versions(),
        ctx,
        frame,
        ctx.explain_scan("SELECT * FROM t"),
        table.scanner(filter="id > 3").explain_plan(),
    ]
    assert table.to_table().num_rows == 20
    for value in shown:
        assert SECRET not in repr(value)
        assert SECRET not in str(value)
    assert SECRET not in caplog.text


def test_pickles_open_the_same_store(uri: str):
    table = pickle.loads(pickle.dumps(lance_df.dataset(uri, storage_options=OPTIONS)))
    assert table.count_rows() == 20
    assert SECRET not in repr(table)


_USES: dict[str, Callable[[str], Any]] = {
    "open": lambda uri: lance_df.dataset(uri, storage_options=OPTIONS),
    "folder": lambda uri: (
        lance_df.connect("locked://secrets", storage_options=OPTIONS).sql("SELECT * FROM t").to_pylist()
    ),
    "file": lambda uri: LanceFileReader(uri + "/data/x.lance", storage_options=OPTIONS),
    "unknown option": lambda uri: lance_df.dataset("s3://b/t", storage_options={"bogus": SECRET}),
    "options as text": lambda uri: lance_df.dataset("s3://b/t", storage_options=SECRET),  # type: ignore[arg-type]
    "no such table": lambda uri: lance_df.dataset("locked://nix", storage_options=OPTIONS),
    "external table": lambda uri: lance_df.SessionContext().sql(
        f"CREATE EXTERNAL TABLE z STORED AS LANCE LOCATION '{uri}' OPTIONS ('password' '{SECRET}')"
    ),
    "malformed external table": lambda uri: lance_df.SessionContext().sql(
        f"CREATE EXTERNAL TABLE z STORED AS LANCE LOCATION '{uri}' OPTIONS ('password' '{SECRET}' nonsense"
    ),
}


@pytest.mark.parametrize("use", list(_USES))
def test_errors_hold_no_secret(
    uri: str, use: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(LockedStore, "fails", True)
    with pytest.raises(LanceError) as caught:
        _USES[use](uri)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert SECRET not in caplog.text
    assert SECRET.encode() not in pickle.dumps(caught.value)
    assert SECRET not in "".join(_shown(caught.value))


def _shown(error: BaseException) -> list[str]:
    """Return what a traceback prints, but for the lines of this file, which has the secret in its calls."""
    return [line for line in traceback.format_exception(error) if __file__ not in line]
