"""Members that a commit to ``__manifest`` has lost come back from the versions before it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import PartitionedNamespace
from lance_df.errors import CorruptDataError
from lance_df.namespace.health.findings import ProblemKind
from lance_df.namespace.health.repair_report import RepairKind
from lance_df.namespace.manifest_table import open_manifest_table
from lance_df.storage import open_location

pytestmark = pytest.mark.engine

_SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])


def _rows(values: list[int] | range, b: int = 0) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([b] * len(values), pa.int64())})


def _namespace(root: Path, fields: list[str] | None = None) -> PartitionedNamespace:
    """Make a namespace of 300 partitions in one fragment of ``__manifest``, and one partition in another."""
    namespace = PartitionedNamespace.create(str(root), _SCHEMA, fields or ["a"])
    namespace.append(_rows(range(300)))
    namespace.append(_rows([1000, 1000]))
    assert len(lance.dataset(root / "__manifest").get_fragments()) == 2
    return namespace


def _lose_fragment(root: Path, number: int) -> None:
    """Publish a version without a fragment: what a change did that took it for empty."""
    table = open_manifest_table(open_location(str(root)))
    fragment_id = int(table.fragments.ids[number])
    manifest = lance.dataset(root / "__manifest")
    files = [fragment.metadata for fragment in manifest.get_fragments()]
    left = [fragment for fragment in files if fragment.id != fragment_id]
    operation = lance.LanceOperation.Update(
        removed_fragment_ids=[fragment_id], updated_fragments=[], new_fragments=[], fields_modified=[]
    )
    lance.LanceDataset.commit(manifest.uri, operation, read_version=manifest.version)
    assert len(lance.dataset(manifest.uri).get_fragments()) == len(left)


def _values(root: Path, **options: str) -> list[int]:
    return sorted(PartitionedNamespace.open(str(root)).to_table(**options)["a"].to_pylist())


@pytest.mark.parametrize(("number", "left"), [(0, [1000, 1000]), (1, [*range(300)])])
def test_lost_members_come_back(tmp_path: Path, number: int, left: list[int]) -> None:
    _namespace(tmp_path)
    _lose_fragment(tmp_path, number)
    assert _values(tmp_path) == left
    assert not lance_df.verify(str(tmp_path)).ok
    tried = PartitionedNamespace.repair(str(tmp_path), dry_run=True)
    assert _values(tmp_path) == left
    done = PartitionedNamespace.repair(str(tmp_path))
    assert done.actions == tried.actions
    assert len(done.of_kind(RepairKind.BROUGHT_BACK)) == 302 - len(left) - number
    assert _values(tmp_path) == [*range(300), 1000, 1000]
    assert _values(tmp_path, filter="a >= 299") == [299, 1000, 1000]
    assert lance_df.verify(str(tmp_path), deep=True).ok
    assert not PartitionedNamespace.repair(str(tmp_path)).actions


@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
def test_rows_of_a_partition_that_was_made_anew_are_in_one_table(tmp_path: Path, fields: list[str]) -> None:
    _namespace(tmp_path, fields)
    _lose_fragment(tmp_path, 1)
    PartitionedNamespace.open(str(tmp_path)).append(_rows([1000, 2000, 7]))
    assert _values(tmp_path) == [*range(8), *range(7, 300), 1000, 2000]
    tried = PartitionedNamespace.repair(str(tmp_path), dry_run=True)
    done = PartitionedNamespace.repair(str(tmp_path))
    assert done.actions == tried.actions
    assert len(done.of_kind(RepairKind.MOVED)) == 1
    whole = [*range(8), *range(7, 300), 1000, 1000, 1000, 2000]
    assert _values(tmp_path) == whole
    assert _values(tmp_path, filter="a = 1000") == [1000] * 3
    assert lance_df.verify(str(tmp_path), deep=True).ok
    assert not PartitionedNamespace.repair(str(tmp_path)).actions
    PartitionedNamespace.open(str(tmp_path)).append(_rows([1000]))
    assert _values(tmp_path, filter="a = 1000") == [1000] * 4
    assert lance_df.verify(str(tmp_path), deep=True).ok
    # the versions before are as they were
    assert PartitionedNamespace.open(str(tmp_path)).at(3).count_rows() == 302


def test_lost_members_come_back_as_they_were_read_last(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path)
    namespace.append(_rows([1000]))
    namespace.delete("a = 1000")
    namespace.append(_rows([1000], b=5))
    namespace.append(_rows([5000]))
    manifest = open_manifest_table(open_location(str(tmp_path)))
    _lose_fragment(tmp_path, len(manifest.fragments) - 1)
    # changes of others do not hide what was lost
    PartitionedNamespace.open(str(tmp_path)).delete("a = 7")
    PartitionedNamespace.open(str(tmp_path)).append(_rows([6000]))
    PartitionedNamespace.repair(str(tmp_path))
    assert _values(tmp_path) == [*range(7), *range(8, 300), 1000, 5000, 6000]
    assert _values(tmp_path, filter="b = 5") == [1000]
    assert lance_df.verify(str(tmp_path), deep=True).ok


def test_members_without_rows_stay_without(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path)
    namespace.delete("a >= 299")
    namespace.overwrite_partitions(_rows([5], b=9))
    namespace.update_partition_spec(["b"])
    namespace.repartition()
    rows = namespace.to_table().sort_by("a")
    namespace.cleanup_old_versions()
    assert not PartitionedNamespace.repair(str(tmp_path)).actions
    for number in range(len(open_manifest_table(open_location(str(tmp_path))).fragments)):
        _lose_fragment(tmp_path, 0)
        if number == 0:
            PartitionedNamespace.open(str(tmp_path)).append(_rows([-1], b=77))
    done = PartitionedNamespace.repair(str(tmp_path))
    assert done.of_kind(RepairKind.BROUGHT_BACK)
    found = PartitionedNamespace.open(str(tmp_path)).to_table(filter="b <> 77").sort_by("a")
    assert found == rows
    assert lance_df.verify(str(tmp_path), deep=True).ok


def test_what_a_restored_version_gave_up_stays_away(tmp_path: Path) -> None:
    _namespace(tmp_path)
    manifest = lance.dataset(tmp_path / "__manifest", version=2)
    manifest.restore()
    assert _values(tmp_path) == [*range(300)]
    assert not PartitionedNamespace.repair(str(tmp_path)).actions
    assert lance_df.verify(str(tmp_path), deep=True).ok
    # what is lost later comes back as the restored version had it
    PartitionedNamespace.open(str(tmp_path)).append(_rows([3000]))
    _lose_fragment(tmp_path, 0)
    PartitionedNamespace.repair(str(tmp_path))
    assert _values(tmp_path) == [*range(300), 3000]
    assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.parametrize("number", [0, 1])
def test_members_from_before_a_change_of_columns_get_its_columns(tmp_path: Path, number: int) -> None:
    namespace = _namespace(tmp_path)
    namespace.add_columns({"c": "b + 1"})
    namespace.append(_rows([4000]).append_column("c", pa.array([1])))
    _lose_fragment(tmp_path, number)
    changed = PartitionedNamespace.open(str(tmp_path))
    changed.drop_columns(["b"])
    changed.add_columns({"d": "c + 1"})
    added = pa.table({"a": [1000, 1], "c": [5, 5], "d": [5, 5]})
    changed.append(added)
    tried = PartitionedNamespace.repair(str(tmp_path), dry_run=True)
    done = PartitionedNamespace.repair(str(tmp_path))
    assert done.actions == tried.actions
    assert done.of_kind(RepairKind.FITTED)
    assert _values(tmp_path) == [0, 1, *range(1, 300), 1000, 1000, 1000, 4000]
    rows = PartitionedNamespace.open(str(tmp_path)).to_table()
    assert rows.schema.names == ["a", "c", "d"]
    assert rows.filter(pc.field("c") == 5).sort_by("a") == added.sort_by("a")
    assert lance_df.verify(str(tmp_path), deep=True).ok
    PartitionedNamespace.open(str(tmp_path)).append(added)
    assert PartitionedNamespace.open(str(tmp_path)).count_rows("a IN (1, 1000)") == 2 + 3 + 2
    assert lance_df.verify(str(tmp_path), deep=True).ok


def test_versions_that_a_killed_clean_up_has_left_without_files_are_left_out(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path)
    namespace.append(_rows([2000]))
    namespace.append(_rows([3000]))
    manifest = lance.dataset(tmp_path / "__manifest")
    needed = {file.path for fragment in manifest.get_fragments() for file in fragment.data_files()}
    removed = [each for each in (tmp_path / "__manifest" / "data").iterdir() if each.name not in needed]
    assert removed
    for each in removed:  # files go before the versions that need them
        each.unlink()
    rows = _values(tmp_path)
    _lose_fragment(tmp_path, 1)
    assert _values(tmp_path) != rows
    report = lance_df.verify(str(tmp_path))
    assert report.of_kind(ProblemKind.ORPHAN) or report.of_kind(ProblemKind.MISSING)
    PartitionedNamespace.repair(str(tmp_path))
    assert _values(tmp_path) == rows
    assert lance_df.verify(str(tmp_path), deep=True).ok
    with pytest.raises(CorruptDataError, match="missing"):
        PartitionedNamespace.repair(str(tmp_path), remove_orphans=True, older_than=dt.timedelta(0))
