"""Commits to ``__manifest`` and to members that would lose something are refused, and publish nothing."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import RowCountMismatchError
from lance_df.format.fragment_list import FragmentList
from lance_df.namespace import manifest_rows, manifest_table
from lance_df.namespace.changes import repartition, routing
from lance_df.namespace.changes.draft import Draft
from lance_df.namespace.changes.partition_files import PartitionFiles
from lance_df.namespace.directory.manifest import DirectoryManifest
from lance_df.namespace.health.rebuild import Rebuild
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.object_account import check_none_lost, check_same, check_written
from lance_df.table.commit import committer
from lance_df.table.commit.apply import apply
from lance_df.table.commit.state import TableState
from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lance_df.format.fragments import Fragment
    from lance_df.format.operations import Operation

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
NUM_MEMBERS = 300
FEW_MEMBERS = 40


def rows(values: Iterable[int]) -> pa.Table:
    numbers = list(values)
    return pa.table({"a": numbers, "b": [2 * number for number in numbers]}, schema=SCHEMA)


def made(root: Path, members: int) -> Path:
    """Make a namespace whose ``__manifest`` has a large fragment and a small one."""
    namespace = PartitionedNamespace.create(str(root), SCHEMA, ["a"])
    namespace.append(rows(range(members)))
    namespace.append(rows([1000]))
    assert len(lance_df.dataset(root / "__manifest").get_fragments()) == 2
    return root


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("many") / "n", NUM_MEMBERS)


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with NAMESPACE_LIMITS.replaced(small_fragment_rows=16):
        return made(tmp_path_factory.mktemp("few") / "n", FEW_MEMBERS)


@pytest.fixture
def root_of_many(many: Path, tmp_path: Path) -> str:
    """A copy, of which this process has read nothing."""
    return str(shutil.copytree(many, tmp_path / "n"))


@pytest.fixture
def root(few: Path, tmp_path: Path) -> Iterator[str]:
    """A copy with fewer members, while fragments of that many are large."""
    with NAMESPACE_LIMITS.replaced(small_fragment_rows=16):
        yield str(shutil.copytree(few, tmp_path / "n"))


def found(root: str) -> tuple[int, list[dict[str, int]]]:
    namespace = PartitionedNamespace.open(root)
    return namespace.version, sorted(namespace.to_table().to_pylist(), key=lambda row: row["a"])


def contents(root: str) -> set[str]:
    return {str(file.relative_to(root)) for file in Path(root).rglob("*") if file.is_file()}


def manifests(root: str) -> set[str]:
    return {str(file.relative_to(root)) for file in Path(root, "__manifest").rglob("*") if file.is_file()}


def evolved(namespace: PartitionedNamespace) -> None:
    namespace.update_partition_spec(["b"])


def staged(namespace: PartitionedNamespace) -> None:
    with namespace.transaction() as changes:
        changes.append(rows([7, 2000]))
        changes.rename_column("b", "c")


CHANGES: dict[str, Callable[[PartitionedNamespace], Any]] = {
    "append to a new partition": lambda n: n.append(rows([2000])),
    "append to an old one": lambda n: n.append(rows([1000])),
    "delete": lambda n: n.delete("a = 7"),
    "update": lambda n: n.update({"b": "b + 1"}, where="a = 7"),
    "move": lambda n: n.update({"a": "a + 5000"}, where="a = 7"),
    "upsert": lambda n: n.upsert(rows([7, 2000]), on=["a"]),
    "overwrite": lambda n: n.overwrite_partitions(rows([7])),
    "spec": evolved,
    "rename": lambda n: n.rename_column("b", "c"),
    "null column": lambda n: n.add_columns(pa.field("c", pa.int64())),
    "transaction": staged,
}


def is_manifest(state: TableState) -> bool:
    return "object_id" in state.manifest.schema.names


def without_last(fragments: list[Fragment]) -> list[Fragment]:
    return fragments[:-1]


def with_one_twice(fragments: list[Fragment]) -> list[Fragment]:
    return [*fragments, dataclasses.replace(fragments[0], id=10_000)]


def breaking(change: Callable[[list[Fragment]], list[Fragment]]) -> Callable[..., TableState]:
    def broken(state: TableState, operation: Operation, **options: Any) -> TableState:
        made = apply(state, operation, **options)
        if not is_manifest(state):
            return made
        fragments = FragmentList.of(change(list(made.manifest.fragments)))
        return TableState(dataclasses.replace(made.manifest, fragments=fragments), made.indices)

    return broken


@pytest.mark.parametrize("change", CHANGES)
def test_fragments_of_the_manifest_are_not_lost(
    root: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = found(root)
    for breakage in (without_last, with_one_twice):
        kept = manifests(root)
        with monkeypatch.context() as patch:
            patch.setattr(committer, "apply", breaking(breakage))
            with pytest.raises(
                RowCountMismatchError, match=r"__manifest: \w+ on version \d+: 83 rows before"
            ):
                CHANGES[change](PartitionedNamespace.open(root))
        assert manifests(root) == kept
        assert found(root) == before
    CHANGES[change](PartitionedNamespace.open(root))
    assert PartitionedNamespace.open(root).verify(deep=True).ok


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("rename", "null column")])
def test_rows_that_are_read_of_the_wrong_fragment_stop_a_change(
    root: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A fragment that is taken for empty is not dropped, whatever those who read it have overlooked."""

    def by_first_row(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
        found: dict[int, list[pa.RecordBatch]] = {}
        for batch in batches:
            if batch.num_rows:
                fragment_ids, _ = split_addresses(batch.column("_rowaddr")[:1].to_numpy())
                found.setdefault(int(fragment_ids[0]), []).append(batch)
        return found

    before = found(str(shutil.copytree(root, root + ".before")))
    with monkeypatch.context() as patch:
        patch.setattr(manifest_rows, "_by_fragment", by_first_row)
        patch.setattr(manifest_rows, "_check_complete", lambda *_: None)
        with pytest.raises(RowCountMismatchError, match=r"83 rows before.*would lose|are not expected"):
            CHANGES[change](PartitionedNamespace.open(root))
    # of a folder of which this process has read nothing
    assert found(str(shutil.copytree(root, root + ".after"))) == before


def test_objects_are_not_lost_on_their_way(root_of_many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(root_of_many)
    original = manifest_table._with_versions
    changes: dict[str, Callable[[pa.Table], pa.Table]] = {
        "1 would be lost": lambda former: former.slice(1),
        "0 would be lost, 0 are not expected": lambda former: pa.concat_tables([former, former]),
        "1 are not expected: .*'other'": lambda former: former.set_column(
            0, former.schema.field(0), pa.array(["other"] * len(former))
        ),
    }
    for message, change in changes.items():
        with monkeypatch.context() as patch:
            patch.setattr(
                manifest_table, "_with_versions", lambda *args, change=change: change(original(*args))
            )
            with pytest.raises(RowCountMismatchError, match=message):
                PartitionedNamespace.open(root_of_many).append(rows([7]))
        assert found(root_of_many) == before


def test_objects_are_neither_added_twice_nor_changed_where_there_are_none(root: str) -> None:
    manifest = PartitionedNamespace.open(root)._table.manifest
    empty = manifest.table.arrow_schema.empty_table()
    there = manifest.members.slice(0, 1).select(empty.schema.names)
    with pytest.raises(
        RowCountMismatchError, match=r"83 objects before, 0 removed, 1 added: .* would appear"
    ):
        manifest.changed(there, {})
    new = there.set_column(0, empty.schema.field(0), pa.array(["v1$x"]))
    with pytest.raises(RowCountMismatchError, match=r"2 added: 'v1\$x' would appear twice"):
        manifest.changed(pa.concat_tables([new, new]), {})
    with pytest.raises(RowCountMismatchError, match=r"'v1\$none'"):
        manifest.changed(empty, {"v1$none": 2})
    assert manifest.latest() is manifest


def test_a_transaction_keeps_the_members_that_there_are(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last of several detached versions lacks is missed before it is published."""
    before = found(root)
    original = Draft.publish

    def lossy(self: Draft, **options: Any) -> Any:
        made = original(self, **options)
        made._rows.__dict__["all"] = made.rows.slice(1)
        return made

    monkeypatch.setattr(Draft, "publish", lossy)
    with pytest.raises(RowCountMismatchError, match=r"83 objects before, 8. after, of which 1 would be lost"):
        staged(PartitionedNamespace.open(root))
    monkeypatch.undo()
    assert found(root) == before


# -- rows of members --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", ["append to a new partition", "append to an old one", "overwrite", "upsert"]
)
def test_members_have_the_rows_that_were_written(
    root: str, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = found(root)
    original = PartitionFiles.write

    def lossy(self: PartitionFiles, partition: Any, *args: Any, **options: Any) -> None:
        original(self, partition, *args, **options)
        partition.fragments.pop()

    with monkeypatch.context() as patch:
        patch.setattr(PartitionFiles, "write", lossy)
        with pytest.raises(RowCountMismatchError, match=r"1 added, .*the new version would have [01] rows"):
            CHANGES[change](PartitionedNamespace.open(root))
    assert found(root) == before


def test_rows_are_not_lost_between_partitions(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(root)
    original = routing.PartitionWriter._written_partitions

    def lossy(self: Any, values: pa.RecordBatch) -> list[Any]:
        partitions = original(self, values)
        self._partitions.popitem()
        return partitions

    monkeypatch.setattr(routing.PartitionWriter, "_written_partitions", lossy)
    with pytest.raises(RowCountMismatchError, match=r"2 rows should be written to 1 partitions, but 1 were"):
        PartitionedNamespace.open(root).append(rows([2000, 2001]))
    monkeypatch.undo()
    assert found(root) == before


def test_rows_that_move_are_all_written(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = found(root), contents(root)
    original = routing.PartitionWriter.write

    def lossy(self: Any, batches: Any) -> Any:
        return original(self, [batch.slice(1) for batch in batches])

    with monkeypatch.context() as patch:
        patch.setattr(routing.PartitionWriter, "write", lossy)
        with pytest.raises(
            RowCountMismatchError, match=r"2 rows should be rewritten .* but [01] were written"
        ):
            PartitionedNamespace.open(root).update({"b": "b + 1"}, where="a in (7, 8)")
    assert found(root) == before
    assert contents(root) == files


def test_repartition_writes_what_it_takes(root_of_many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = PartitionedNamespace.open(root_of_many)
    namespace.update_partition_spec(["b"])
    before = found(root_of_many)
    original = repartition.merged_partitions
    with monkeypatch.context() as patch:
        patch.setattr(repartition, "merged_partitions", lambda *args: original(*args)[1:])
        with pytest.raises(RowCountMismatchError, match=r"removes 301 rows from 301 members"):
            namespace.repartition()
    assert found(root_of_many) == before
    assert namespace.repartition().rows == 301
    assert namespace.verify(deep=True).ok


# -- other writers of the table ----------------------------------------------------------------------


def test_a_directory_loses_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = lance_df.DirectoryNamespace(str(tmp_path))
    for number in range(12):
        directory.create_table(f"t{number}", rows([number]))
    names = sorted(directory.list_tables([]).tables)
    changes: list[Callable[[], Any]] = [
        lambda: directory.create_table("more", rows([1])),
        lambda: directory.create_namespace("space"),
        lambda: directory.drop_table("t3"),
    ]
    original = DirectoryManifest._full_rows
    for change in changes:
        for breakage in (without_last, with_one_twice):
            with monkeypatch.context() as patch:
                patch.setattr(committer, "apply", breaking(breakage))
                with pytest.raises(RowCountMismatchError, match=r"__manifest"):
                    change()
            assert sorted(lance_df.DirectoryNamespace(str(tmp_path)).list_tables([]).tables) == names
    with monkeypatch.context() as patch, NAMESPACE_LIMITS.replaced(directory_small_fragments=1):
        # small fragments are brought together, one row of which is lost
        patch.setattr(DirectoryManifest, "_full_rows", lambda self, wanted: original(self, wanted).slice(1))
        with pytest.raises(RowCountMismatchError, match=r"objects: .* 1 would be lost"):
            directory.create_namespace("space")
    assert sorted(lance_df.DirectoryNamespace(str(tmp_path)).list_tables([]).tables) == names


def test_repair_forgets_no_table(root_of_many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = PartitionedNamespace.open(root_of_many)
    before = found(root_of_many)
    manifest = lance_df.dataset(f"{root_of_many}/__manifest")
    manifest.update({"read_version": "NULL"}, where="location IS NOT NULL")
    damaged = manifest.version
    original = Rebuild.rows
    with monkeypatch.context() as patch:
        patch.setattr(Rebuild, "rows", lambda self: original(self).slice(1))
        with pytest.raises(RowCountMismatchError, match=r"would be lost"):
            namespace.repair(root_of_many, publish_newer=True)
    assert lance_df.dataset(f"{root_of_many}/__manifest").version == damaged
    PartitionedNamespace.repair(root_of_many, publish_newer=True)
    assert found(root_of_many)[1] == before[1]


# -- the checks themselves ---------------------------------------------------------------------------


def ids(*names: str) -> pa.ChunkedArray:
    return pa.chunked_array([list(names)], pa.string())


def test_objects_that_are_written_are_counted_by_their_ids() -> None:
    check_written("n", taken=ids("a", "b"), removed=["b"], added=ids("b", "c"), written=ids("c", "a", "b"))
    check_written("n", taken=ids(), removed=[], added=ids(), written=pa.chunked_array([], pa.string()))
    for written in (ids("a", "b"), ids("a", "b", "c", "c"), ids("a", "b", "x")):
        with pytest.raises(RowCountMismatchError, match=r"2 taken, 1 removed, 2 added, 3 expected, . found"):
            check_written("n", taken=ids("a", "b"), removed=["b"], added=ids("b", "c"), written=written)


def test_what_was_there_is_there() -> None:
    check_same("n", before=ids("a", "b"), after=ids("b", "a"))
    check_none_lost("n", before=ids("a"), after=ids("b", "a"))
    with pytest.raises(RowCountMismatchError, match=r"2 before, .* 2 expected, 1 found; 1 would be lost"):
        check_same("n", before=ids("a", "b"), after=ids("b"))
    with pytest.raises(
        RowCountMismatchError, match=r"2 objects before, 1 after, of which 1 would be lost: 'a'"
    ):
        check_none_lost("n", before=ids("a", "b"), after=ids("b"))
