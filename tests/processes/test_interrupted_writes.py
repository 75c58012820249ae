"""Ctrl-C while something is written: it is there as a whole or not at all, and nothing is left behind."""

from __future__ import annotations

import linecache
import shutil
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

import lance_df
import lance_df.engine.statements.run as run_module
import lance_df.table.maintenance.auto_cleanup as auto_cleanup_module
from lance_df.namespace.changes.publish import PublishingLine, Waiting
from lance_df.table.commit.committer import Committer
from tools.leftover_files import leftovers

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PACKAGE = str(Path(lance_df.__file__).parent)
ENGINE = (f"{PACKAGE}/engine", f"{PACKAGE}/compute")
SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
SAMPLES = 12


def rows(first: int, number: int, parts: int = 3) -> pa.Table:
    ids = range(first, first + number)
    return pa.table({"a": [each % parts for each in ids], "b": list(ids)}, SCHEMA)


def make_table(path: Path) -> None:
    for first in (0, 10, 20):
        lance_df.write_dataset(rows(first, 10), path, mode="append")
    lance_df.dataset(path).create_scalar_index("b", "ZONEMAP")


def make_namespace(path: Path) -> None:
    namespace = lance_df.PartitionedNamespace.create(path, SCHEMA, [lance_df.partition.identity("a")])
    namespace.append(rows(0, 30))
    namespace.append(rows(30, 30))


def merge(path: Path) -> None:
    source = rows(25, 10)
    builder = lance_df.dataset(path).merge_insert("b").when_matched_update_all()
    builder.when_not_matched_insert_all().execute(source)


TABLE: dict[str, Callable[[Path], Any]] = {
    "append": lambda path: lance_df.write_dataset(rows(30, 10), path, mode="append"),
    "overwrite": lambda path: lance_df.write_dataset(rows(30, 10), path, mode="overwrite"),
    "create": lambda path: lance_df.write_dataset(rows(30, 10), path.with_name("new"), mode="create"),
    "delete": lambda path: lance_df.dataset(path).delete("b % 10 = 3"),
    "update": lambda path: lance_df.dataset(path).update({"a": "7"}, where="b < 5"),
    "merge_insert": merge,
    "compact": lambda path: lance_df.dataset(path).optimize.compact_files(),
    "add_columns": lambda path: lance_df.dataset(path).add_columns({"c": "b + 1"}),
}
NAMESPACE: dict[str, Callable[[Path], Any]] = {
    "append": lambda path: lance_df.PartitionedNamespace.open(path).append(rows(100, 9, 5)),
    "overwrite": lambda path: lance_df.PartitionedNamespace.open(path).overwrite_partitions(rows(100, 9, 5)),
    "delete": lambda path: lance_df.PartitionedNamespace.open(path).delete("b % 10 = 3"),
    "update": lambda path: lance_df.PartitionedNamespace.open(path).update({"a": "7"}, where="b < 5"),
    "compact": lambda path: lance_df.PartitionedNamespace.open(path).compact(),
}


class Interrupting:
    """Raises KeyboardInterrupt at the n-th line of the package that the main thread comes to."""

    def __init__(self, number: int | None) -> None:
        self.lines = 0
        self._number = number

    def __enter__(self) -> Self:
        self._former = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._former)

    def _trace(self, frame: Any, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.lines += 1
            if self._number is not None and self.lines >= self._number and _can_come(frame):
                self._number = None
                signal.raise_signal(signal.SIGINT)
        return self._trace


def _can_come(frame: Any) -> bool:
    """Whether an interrupt can come here, and is not for DataFusion, which may have called, to pass on.

    Where a context ends, Python sees its line again: before a lock is released, which takes one instruction.
    """
    if linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip().startswith("with "):
        return False
    while frame is not None:
        if frame.f_code.co_filename.startswith(ENGINE):
            return False
        frame = frame.f_back
    return True


def content(path: Path) -> list[tuple[Any, ...]]:
    if (path / "__manifest").is_dir():
        found = lance_df.PartitionedNamespace.open(path).to_table()
    elif path.is_dir():
        found = lance_df.dataset(path).to_table()
    else:
        return []
    return sorted(zip(*found.to_pydict().values(), strict=True))


def check(path: Path) -> None:
    for root in (path, path.with_name("new")):
        if not root.is_dir():
            continue
        assert leftovers(root) == []
        if (root / "__manifest").is_dir():
            # versions of members that nobody reads are undone by the next write
            problems = lance_df.PartitionedNamespace.open(root).verify(deep=True).problems
            assert [str(each) for each in problems if "reverts it" not in each.advice] == []
        else:
            lance_df.dataset(root).validate()


@pytest.mark.parametrize(
    ("kind", "name"), [*(("table", each) for each in TABLE), *(("namespace", each) for each in NAMESPACE)]
)
def test_an_interrupt_at_any_line(tmp_path: Path, kind: str, name: str) -> None:
    first = tmp_path / "first"
    make, work = (make_table, TABLE[name]) if kind == "table" else (make_namespace, NAMESPACE[name])
    make(first)
    before = content(first), content(first.with_name("new"))

    def interrupted(number: int | None) -> tuple[Path, int, bool]:
        path = tmp_path / str(number) / "t"
        shutil.copytree(first, path)
        with Interrupting(number) as tracing:
            try:
                work(path)
            except KeyboardInterrupt:
                return path, tracing.lines, True
        return path, tracing.lines, False

    work(tmp_path_warm(first, tmp_path))
    path, num_lines, _ = interrupted(None)
    after = content(path), content(path.with_name("new"))
    assert before != after or name == "compact"
    step = max(1, num_lines // SAMPLES)
    num_interrupted = 0
    for number in range(1 + step // 2, num_lines, step):
        path, _, was = interrupted(number)
        num_interrupted += was
        found = content(path), content(path.with_name("new"))
        assert found in (before, after), number
        if not was:
            assert found == after, number
        check(path)
        shutil.rmtree(path.parent)
    assert num_interrupted > SAMPLES // 2


def columns_altered(path: Path) -> None:
    lance_df.dataset(path).alter_columns({"path": "b", "data_type": pa.int32()})


def statement(text: str) -> Callable[[Path], Any]:
    return lambda path: lance_df.connect(path.parent).sql(text)


COMMITS: dict[str, Callable[[Path], Any]] = {
    **{name: TABLE[name] for name in ("append", "delete", "update", "merge_insert", "add_columns")},
    "config": lambda path: lance_df.dataset(path).update_config({"k": "v"}),
    "create_index": lambda path: lance_df.dataset(path).create_scalar_index("a", "BTREE"),
    "alter_columns": columns_altered,
    "insert": statement("INSERT INTO t VALUES (1, 2)"),
    "alter": statement("ALTER TABLE t ADD COLUMN c BIGINT"),
    "create as": lambda path: lance_df.connect(path.parent).sql("CREATE TABLE c AS SELECT 1 AS a"),
    "namespace": NAMESPACE["append"],
}


MOMENTS: dict[str, tuple[Any, str]] = {
    "hint": (Committer, "_write_version_hint"),
    "unchanged": (Committer, "_is_unchanged"),
    "cleanup": (auto_cleanup_module, "cleanup"),
    "count": (run_module, "LanceDataFrame"),
}


NEW = ("create as", "namespace")  # tables without automatic cleanup
INTERRUPTED = [
    *(("hint", name) for name in COMMITS),
    *(("unchanged", name) for name in COMMITS if name != "create as"),
    *(("cleanup", name) for name in COMMITS if name not in NEW),
    *(("count", name) for name in ("insert", "alter", "create as")),
]


@pytest.mark.parametrize(("moment", "name"), INTERRUPTED)
def test_a_note_tells_that_the_version_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    path = tmp_path / "t.lance"
    (make_namespace if name == "namespace" else make_table)(path)
    if name != "namespace":
        config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"}
        lance_df.dataset(path).update_config(config)
    owner, method = MOMENTS[moment]
    former = getattr(owner, method)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        uri = getattr(getattr(arguments[0], "location", None), "uri", str(path / "__manifest"))
        if name != "namespace" or uri.endswith("__manifest"):
            signal.raise_signal(signal.SIGINT)
        return former(*arguments, **options)

    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(KeyboardInterrupt) as raised:
        COMMITS[name](path)
    monkeypatch.undo()
    where = {"create as": path.with_name("c.lance"), "namespace": path / "__manifest"}.get(name, path)
    version = lance_df.dataset(where).version
    note = f"{where}: version {version} was published before the call was interrupted"
    assert raised.value.__notes__ == [note]


@pytest.mark.parametrize("outcome", ["published", "refused"])
def test_a_note_on_a_version_that_another_thread_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str
) -> None:
    path = tmp_path / "t"
    make_namespace(path)
    root = lance_df.PartitionedNamespace.open(path)
    former = PublishingLine._publish_waiting

    def elsewhere(line: PublishingLine) -> None:
        with ThreadPoolExecutor(1) as pool:
            pool.submit(former, line).result()

    monkeypatch.setattr(PublishingLine, "_publish_waiting", elsewhere)
    if outcome == "published":
        monkeypatch.setattr(Waiting, "outcome", lambda _: signal.raise_signal(signal.SIGINT))
    else:
        monkeypatch.setattr(PublishingLine, "_publish_waiting", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt) as raised:
        root.append(rows(100, 9, 5))
    monkeypatch.undo()
    version = lance_df.dataset(path / "__manifest").version
    note = f"{path / '__manifest'}: version {version} was published before the call was interrupted"
    assert getattr(raised.value, "__notes__", []) == ([note] if outcome == "published" else [])
    assert lance_df.PartitionedNamespace.open(path).to_table().num_rows == (
        69 if outcome == "published" else 60
    )


def tmp_path_warm(first: Path, folder: Path) -> Path:
    """Return a copy for a first time, which imports modules."""
    path = folder / "warm" / "t"
    shutil.copytree(first, path)
    return path
