"""Every pair of changes, one of which was computed before the other was committed: what we do, pylance does.

Each change is made once by pylance. Then, for each pair, the second one is committed on top of the first from
the version before it, by pylance and by us, on the same files.
"""

from __future__ import annotations

import dataclasses
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance import DatasetBasePath, LanceDataset, LanceOperation
from lance.file import LanceFileWriter
from lance.fragment import DataFile

from lance_df.errors import IncompatibleConflictError, InvalidInputError, RetryableConflictError
from lance_df.format.operations import Operation, Rewrite, RewriteGroup
from lance_df.table.commit.loop import commit_change
from lance_df.table.open import open_table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

BASE = 2
SCHEMA = pa.schema([pa.field("k", pa.int64(), False), ("a", pa.int64()), ("b", pa.string())])


def rows(start: int, stop: int) -> pa.Table:
    numbers = range(start, stop)
    return pa.table({"k": numbers, "a": [10 * n for n in numbers], "b": [str(n) for n in numbers]}, SCHEMA)


def commit_raw(table: LanceDataset, operation: Any) -> None:
    LanceDataset.commit(table.uri, operation, read_version=BASE)


def append(table: LanceDataset) -> None:
    lance.write_dataset(rows(30, 33), table, mode="append")


def overwrite(table: LanceDataset) -> None:
    lance.write_dataset(rows(0, 4), table, mode="overwrite")


def delete(where: str) -> Callable[[LanceDataset], Any]:
    return lambda table: table.delete(where, conflict_retries=0)


def update(where: str) -> Callable[[LanceDataset], Any]:
    return lambda table: table.update({"a": "5"}, where=where, conflict_retries=0)


def upsert(*keys: int) -> Callable[[LanceDataset], Any]:
    def run(table: LanceDataset) -> None:
        merge = table.merge_insert("k").conflict_retries(0)
        merge.when_matched_update_all().when_not_matched_insert_all().execute(rows(0, 200).take(list(keys)))

    return run


def replace_column(fragment_id: int) -> Callable[[LanceDataset], Any]:
    """Update column a of one row, in a new file of the whole column."""

    def run(table: LanceDataset) -> None:
        source = pa.table({"k": pa.array([10 * fragment_id + 4]), "a": pa.array([99])})
        fragment = table.get_fragment(fragment_id)
        changed, fields = fragment.update_columns(source, left_on="k", right_on="k")
        operation = LanceOperation.Update(
            updated_fragments=[changed], fields_modified=fields, update_mode="rewrite_columns"
        )
        commit_raw(table, operation)

    return run


def replace_data(fragment_id: int) -> Callable[[LanceDataset], Any]:
    """Replace the file of column a."""

    def run(table: LanceDataset) -> None:
        name = f"{uuid.uuid4()}.lance"
        with LanceFileWriter(f"{table.uri}/data/{name}", version="2.2") as writer:
            writer.write_batch(pa.table({"a": pa.array(range(10))}))
        group = LanceOperation.DataReplacementGroup(fragment_id, DataFile(name, [1], [0], 2, 2))
        commit_raw(table, LanceOperation.DataReplacement([group]))

    return run


def index(column: str) -> Callable[[LanceDataset], Any]:
    return lambda table: table.create_scalar_index(column, "BTREE", name=f"{column}_idx")


def merge(table: LanceDataset) -> None:
    """Say that all fragments are new, and nothing of nulls."""
    fragments = [fragment.metadata for fragment in table.get_fragments()]
    commit_raw(table, LanceOperation.Merge(fragments, table.lance_schema))


def add_base(name: str, path: str) -> Callable[[LanceDataset], Any]:
    return lambda table: table.add_bases([DatasetBasePath(path, name)])


CHANGES: Mapping[str, Callable[[LanceDataset], Any]] = {
    "append": append,
    "delete 1": delete("k = 1"),
    "delete 2": delete("k = 2"),
    "delete 20": delete("k = 20"),
    "drop fragment": delete("k < 10"),
    "update 1": update("k = 1"),
    "update 3": update("k = 3"),
    "upsert": upsert(5, 150),
    "column of fragment 0": replace_column(0),
    "data of fragment 0": replace_data(0),
    "data of fragment 2": replace_data(2),
    "overwrite": overwrite,
    "index a": index("a"),
    "index b": index("b"),
    "compact": lambda table: table.optimize.compact_files(target_rows_per_fragment=20),
    "cast a": lambda table: table.alter_columns({"path": "a", "data_type": pa.int32()}),
    "add c": lambda table: table.add_columns({"c": "a + 1"}),
    "merge": merge,
    "drop b": lambda table: table.drop_columns(["b"]),
    "rename b": lambda table: table.alter_columns({"path": "b", "name": "bb"}),
    "a not null": lambda table: table.alter_columns({"path": "a", "nullable": False}),
    "restore": lambda table: commit_raw(table, LanceOperation.Restore(1)),
    "config x": lambda table: table.update_config({"x": "1"}),
    "config x gone": lambda table: table.update_config({"x": None}),
    "config y": lambda table: table.update_config({"y": "1"}),
    "table metadata": lambda table: table.update_metadata({"x": "1"}),
    "schema metadata": lambda table: table.update_schema_metadata({"x": "1"}),
    "field metadata": lambda table: table.update_field_metadata({"a": {"x": "1"}}),
    "base": add_base("one", "/one"),
    "base of that name": add_base("one", "/other"),
}

DIFFERENT = {
    # pylance commits the row, of which the cast column is null then
    ("cast a", "append"): "retry",
    # pylance keeps an index on a field that is gone
    ("cast a", "index a"): "retry",
    ("drop b", "index b"): "retry",
    # pylance takes back the metadata that was committed between
    ("field metadata", "drop b"): "retry",
    ("field metadata", "rename b"): "retry",
    ("field metadata", "a not null"): "retry",
}
"""(committed first, mine) where we are more careful than pylance, and what we say."""


@dataclass(frozen=True)
class Change:
    """What a change left behind: the manifests of its versions, and what the last of them did."""

    manifests: Mapping[str, bytes]
    operation: Operation


class Playground:
    """One table, of which versions are put and taken away; the data files of all changes stay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lance.write_dataset(rows(0, 20), path, max_rows_per_file=10)
        lance.write_dataset(rows(20, 30), path, mode="append")
        self._base = set(self._manifests())
        self.changes = {name: self._made(change) for name, change in CHANGES.items()}
        # those of a second writer, with files of its own
        self.again = {name: self._made(change) for name, change in CHANGES.items()}

    def put(self, change: Change) -> None:
        self.clear()
        for name, content in change.manifests.items():
            (self.path / "_versions" / name).write_bytes(content)

    def clear(self) -> None:
        for name, file in self._manifests().items():
            if name not in self._base:
                file.unlink()

    def _made(self, change: Callable[[LanceDataset], Any]) -> Change:
        change(lance.dataset(self.path, version=BASE))
        manifests = {n: f.read_bytes() for n, f in self._manifests().items() if n not in self._base}
        transaction = open_table(str(self.path)).transaction()
        assert transaction is not None
        self.clear()
        return Change(manifests, _without_reserved_ids(transaction.operation))

    def _manifests(self) -> dict[str, Path]:
        return {file.name: file for file in (self.path / "_versions").glob("*.manifest")}


def _without_reserved_ids(operation: Operation) -> Operation:
    if not isinstance(operation, Rewrite):
        return operation
    groups = (
        RewriteGroup(group.old_fragments, tuple(dataclasses.replace(f, id=0) for f in group.new_fragments))
        for group in operation.groups
    )
    return dataclasses.replace(operation, groups=tuple(groups))


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Playground:
    return Playground(tmp_path_factory.mktemp("matrix") / "t.lance")


def by_pylance(path: Path, change: str) -> str:
    try:
        CHANGES[change](lance.dataset(path, version=BASE))
    except Exception as err:  # noqa: BLE001 - pylance has no types for these
        text = str(err).lower()
        if "does not exist" in text:
            return "invalid"
        if "retryable" in text or "please retry" in text or "too many concurrent" in text:
            return "retry"
        return "give up" if "incompatible" in text else f"unexpected: {text}"
    return "ok"


def by_us(path: Path, change: Change) -> str:
    try:
        commit_change(open_table(str(path), version=BASE), change.operation, rows=None)
    except RetryableConflictError:
        return "retry"
    except IncompatibleConflictError:
        return "give up"
    except InvalidInputError:
        return "invalid"
    return "ok"


def content(path: Path) -> dict[str, Any]:
    table = lance.dataset(path)
    found = table.to_table()
    return {
        "rows": sorted(zip(*(column.to_pylist() for column in found.columns), strict=True), key=repr),
        "schema": found.schema,
        "fragments": [fragment.fragment_id for fragment in table.get_fragments()],
        "indices": [(index.name, index.covered_fragments()) for index in open_table(str(path)).indices],
        "config": table.config(),
        "metadata": table.metadata,
    }


@pytest.mark.parametrize("theirs", CHANGES)
def test_a_change_after_another_one(playground: Playground, theirs: str) -> None:
    first = playground.changes[theirs]
    path = playground.path
    for mine, change in playground.again.items():
        playground.put(first)
        expected = by_pylance(path, mine)
        wanted = content(path) if expected == "ok" else None
        playground.put(first)
        found = by_us(path, change)
        if (theirs, mine) in DIFFERENT:
            assert (expected, found) == ("ok", DIFFERENT[theirs, mine])
            continue
        assert found == expected, f"{mine!r} after {theirs!r}: pylance {expected}, we {found}"
        if found == "ok":
            lance.dataset(path).validate()
            assert content(path) == wanted, f"{mine!r} after {theirs!r}"
