"""Members that a commit to ``__manifest`` has lost come back from the versions before it."""

from __future__ import annotations

import datetime as dt
import shutil
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from new_processes import answer_of

import lance_df
from lance_df import PartitionedNamespace
from lance_df.namespace.health.findings import ProblemKind, Severity
from lance_df.namespace.health.repair_report import RepairKind, RepairReport
from lance_df.namespace.limits import NAMESPACE_LIMITS
from lance_df.namespace.manifest_table import open_manifest_table
from lance_df.storage import open_location

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.int64())])
_MANY = 300
_FEW = 40


def _rows(values: list[int] | range, b: int = 0) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64()), "b": pa.array([b] * len(values), pa.int64())})


def _namespace(root: Path, partitions: int, fields: list[str] | None = None) -> PartitionedNamespace:
    """Make a namespace of partitions in one fragment of ``__manifest``, and one partition in another."""
    namespace = PartitionedNamespace.create(str(root), _SCHEMA, fields or ["a"])
    namespace.append(_rows(range(partitions)))
    namespace.append(_rows([1000, 1000]))
    assert len(lance.dataset(root / "__manifest").get_fragments()) == 2
    return namespace


@pytest.fixture(scope="module")
def many_partitions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "n"
    _namespace(root, _MANY)
    return root


@pytest.fixture
def of_many(many_partitions: Path, tmp_path: Path) -> Path:
    """A namespace of many partitions, of which this process has read nothing."""
    return shutil.copytree(many_partitions, tmp_path / "n")


@pytest.fixture
def few_are_many() -> Iterator[None]:
    """Let a fragment of ``__manifest`` with `_FEW` members be as large as one that changes do not rewrite."""
    with NAMESPACE_LIMITS.replaced(small_fragment_rows=16):
        yield


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


@pytest.mark.parametrize(("number", "left"), [(0, [1000, 1000]), (1, [*range(_MANY)])])
def test_lost_members_come_back(of_many: Path, number: int, left: list[int]) -> None:
    _lose_fragment(of_many, number)
    assert _values(of_many) == left
    assert not lance_df.verify(str(of_many)).ok
    tried = PartitionedNamespace.repair(str(of_many), dry_run=True)
    assert _values(of_many) == left
    done = PartitionedNamespace.repair(str(of_many))
    assert done.actions == tried.actions
    assert len(done.of_kind(RepairKind.BROUGHT_BACK)) == _MANY + 2 - len(left) - number
    assert _values(of_many) == [*range(_MANY), 1000, 1000]
    assert _values(of_many, filter=f"a >= {_MANY - 1}") == [_MANY - 1, 1000, 1000]
    assert lance_df.verify(str(of_many), deep=True).ok
    assert not PartitionedNamespace.repair(str(of_many)).actions


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
def test_rows_of_a_partition_that_was_made_anew_are_in_one_table(tmp_path: Path, fields: list[str]) -> None:
    _namespace(tmp_path, _FEW, fields)
    _lose_fragment(tmp_path, 1)
    PartitionedNamespace.open(str(tmp_path)).append(_rows([1000, 2000, 7]))
    assert _values(tmp_path) == [*range(8), *range(7, _FEW), 1000, 2000]
    tried = PartitionedNamespace.repair(str(tmp_path), dry_run=True)
    done = PartitionedNamespace.repair(str(tmp_path))
    assert done.actions == tried.actions
    assert len(done.of_kind(RepairKind.MOVED)) == 1
    whole = [*range(8), *range(7, _FEW), 1000, 1000, 1000, 2000]
    assert _values(tmp_path) == whole
    assert _values(tmp_path, filter="a = 1000") == [1000] * 3
    assert lance_df.verify(str(tmp_path), deep=True).ok
    assert not PartitionedNamespace.repair(str(tmp_path)).actions
    PartitionedNamespace.open(str(tmp_path)).append(_rows([1000]))
    assert _values(tmp_path, filter="a = 1000") == [1000] * 4
    assert lance_df.verify(str(tmp_path), deep=True).ok
    # the versions before are as they were
    assert PartitionedNamespace.open(str(tmp_path)).at(3).count_rows() == _FEW + 2


@pytest.mark.usefixtures("few_are_many")
def test_lost_members_come_back_as_they_were_read_last(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path, _FEW)
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
    assert _values(tmp_path) == [*range(7), *range(8, _FEW), 1000, 5000, 6000]
    assert _values(tmp_path, filter="b = 5") == [1000]
    assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.usefixtures("few_are_many")
def test_members_without_rows_stay_without(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path, _FEW)
    namespace.delete(f"a >= {_FEW - 1}")
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


@pytest.mark.usefixtures("few_are_many")
def test_what_a_restored_version_gave_up_stays_away(tmp_path: Path) -> None:
    _namespace(tmp_path, _FEW)
    manifest = lance.dataset(tmp_path / "__manifest", version=2)
    manifest.restore()
    assert _values(tmp_path) == [*range(_FEW)]
    assert not PartitionedNamespace.repair(str(tmp_path)).actions
    assert lance_df.verify(str(tmp_path), deep=True).ok
    # what is lost later comes back as the restored version had it
    PartitionedNamespace.open(str(tmp_path)).append(_rows([3000]))
    _lose_fragment(tmp_path, 0)
    PartitionedNamespace.repair(str(tmp_path))
    assert _values(tmp_path) == [*range(_FEW), 3000]
    assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.usefixtures("few_are_many")
@pytest.mark.parametrize(("number", "partitions"), [(0, _MANY), (1, _FEW)])
def test_members_from_before_a_change_of_columns_get_its_columns(
    tmp_path: Path, number: int, partitions: int
) -> None:
    namespace = _namespace(tmp_path, partitions)
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
    assert _values(tmp_path) == [0, 1, *range(1, partitions), 1000, 1000, 1000, 4000]
    rows = PartitionedNamespace.open(str(tmp_path)).to_table()
    assert rows.schema.names == ["a", "c", "d"]
    assert rows.filter(pc.field("c") == 5).sort_by("a") == added.sort_by("a")
    assert lance_df.verify(str(tmp_path), deep=True).ok
    PartitionedNamespace.open(str(tmp_path)).append(added)
    assert PartitionedNamespace.open(str(tmp_path)).count_rows("a IN (1, 1000)") == 2 + 3 + 2
    assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.usefixtures("few_are_many")
def test_versions_that_a_killed_clean_up_has_left_without_files_are_left_out(tmp_path: Path) -> None:
    namespace = _namespace(tmp_path, _FEW)
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
    report = PartitionedNamespace.repair(str(tmp_path), remove_orphans=True, older_than=dt.timedelta(0))
    assert not report.actions
    assert _values(tmp_path) == rows


def _lose_rows(root: Path, condition: str) -> None:
    """Delete rows of ``__manifest``, past the package."""
    manifest = lance.dataset(root / "__manifest")
    before = manifest.count_rows()
    manifest.delete(condition)
    assert manifest.count_rows() < before


def _tables(root: Path) -> list[str]:
    rows = lance.dataset(root / "__manifest").to_table(["object_id", "object_type"]).to_pylist()
    return sorted(row["object_id"] for row in rows if row["object_type"] == "table")


def _members(root: Path) -> list[str]:
    return [name for name in _tables(root) if not name.startswith("set_aside")]


def _in_new_process(root: Path, statement: str) -> None:
    opened = "import lance_df, pyarrow as pa\nns = lance_df.PartitionedNamespace.open(root)\n"
    answer_of(opened + statement, root=str(root))


def _repaired(root: Path) -> RepairReport:
    """Repair, and check that a dry run tells the same, and that nothing is left to be done."""
    tried = PartitionedNamespace.repair(str(root), dry_run=True)
    done = PartitionedNamespace.repair(str(root))
    assert done.actions == tried.actions
    _check_whole(root)
    assert not PartitionedNamespace.repair(str(root)).actions
    return done


def _check_whole(root: Path) -> None:
    problems = lance_df.verify(str(root), deep=True).problems
    assert [each for each in problems if each.severity is not Severity.INFO] == []


@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
@pytest.mark.parametrize("again", [1, 5])
def test_a_table_of_which_the_id_was_given_out_again_comes_back(
    tmp_path: Path, fields: list[str], again: int
) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, fields).append(_rows([0, 1, 1, 2]))
    before = _tables(tmp_path)
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(tmp_path, f"ns.append(pa.table({{'a': [1] * {again}, 'b': [0] * {again}}}))")
    assert _tables(tmp_path)[0] in before
    assert _values(tmp_path) == [1] * again
    done = _repaired(tmp_path)
    assert len(done.of_kind(RepairKind.BROUGHT_BACK)) == 3
    assert len(done.of_kind(RepairKind.MOVED)) == 1
    assert _members(tmp_path) == before
    assert _values(tmp_path) == sorted([0, 1, 1, 2] + [1] * again)
    assert _values(tmp_path, filter="a = 1") == [1] * (2 + again)
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1, 2], 'b': [0, 0]}))")
    assert _members(tmp_path) == before
    assert _values(tmp_path) == sorted([0, 1, 1, 2, 1, 2] + [1] * again)
    _check_whole(tmp_path)


@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
def test_three_folders_of_one_id_are_one_table(tmp_path: Path, fields: list[str]) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, fields).append(_rows([1]))
    before = _tables(tmp_path)
    for number in (2, 3):
        _lose_rows(tmp_path, "object_type = 'table'")
        _in_new_process(tmp_path, f"ns.append(pa.table({{'a': [1] * {number}, 'b': [0] * {number}}}))")
        assert _tables(tmp_path) == before
    assert len([*tmp_path.glob("*_v1$*")]) == 3
    done = _repaired(tmp_path)
    assert len(done.of_kind(RepairKind.MOVED)) == 2
    assert _members(tmp_path) == before
    assert _values(tmp_path) == [1] * 6


def test_what_was_repaired_is_lost_again_and_comes_back_once(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1]))
    expected = 2
    for condition in ("object_type = 'table'", "true", "object_type = 'table'", "true"):
        _lose_rows(tmp_path, condition)
        _in_new_process(tmp_path, "ns.append(pa.table({'a': [1], 'b': [0]}))")
        _repaired(tmp_path)
        expected += 1
        assert _values(tmp_path) == [1] * expected
        assert _values(tmp_path, filter="a = 1") == [1] * expected
        assert len(_members(tmp_path)) == 1


def test_tables_that_were_set_aside_come_back_as_such(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1]))
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1], 'b': [0]}))")
    _repaired(tmp_path)
    before = _tables(tmp_path)
    assert len(before) == 2
    _lose_rows(tmp_path, "object_id LIKE 'set_aside%'")
    _repaired(tmp_path)
    assert _tables(tmp_path) == before
    assert _values(tmp_path) == [1] * 3


def test_a_table_comes_back_beside_one_of_its_id_that_is_empty_now(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1]))
    before = _tables(tmp_path)
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1], 'b': [0]}))\nns.delete('a = 1')")
    assert _values(tmp_path) == []
    done = _repaired(tmp_path)
    (back,) = done.of_kind(RepairKind.BROUGHT_BACK)
    assert "without later changes" in back.text
    assert before[0] in back.text
    assert _members(tmp_path) == before
    assert _values(tmp_path) == [1, 1]


def test_a_table_of_an_id_given_out_again_gets_the_columns_of_the_namespace(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1, 2], b=3))
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(
        tmp_path,
        "ns.append(pa.table({'a': [1], 'b': [4]}))\nns.add_columns({'c': 'b + 1'})\nns.drop_columns(['b'])",
    )
    done = _repaired(tmp_path)
    assert len(done.of_kind(RepairKind.FITTED)) == 2
    rows = PartitionedNamespace.open(str(tmp_path)).to_table()
    assert rows.schema.names == ["a", "c"]
    assert sorted(map(str, rows.to_pylist())) == sorted(
        map(str, [{"a": 1, "c": 5}, *[{"a": a, "c": None} for a in (1, 1, 2)]])
    )


def test_a_table_that_comes_back_does_not_show_values_of_a_column_it_has_dropped(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1], b=3))
    (location,) = PartitionedNamespace.open(str(tmp_path)).partitions()["location"].to_pylist()
    lance.dataset(tmp_path / location).drop_columns(["b"])
    lance.dataset(tmp_path / "__manifest").update({"read_version": "2"}, where="object_type = 'table'")
    _lose_rows(tmp_path, "object_type = 'table'")
    PartitionedNamespace.open(str(tmp_path)).append(_rows([2], b=4))
    assert _repaired(tmp_path).of_kind(RepairKind.FITTED)
    rows = PartitionedNamespace.open(str(tmp_path)).to_table()
    assert sorted(rows.to_pylist(), key=str) == [*[{"a": 1, "b": None}] * 2, {"a": 2, "b": 4}]
    assert lance.dataset(tmp_path / location).to_table()["b"].to_pylist() == [None, None]


def test_tables_of_two_specs_come_back_each_to_its_own(tmp_path: Path) -> None:
    namespace = PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"])
    namespace.append(_rows([1, 1], b=7))
    namespace.update_partition_spec(["b"])
    namespace.append(_rows([1, 2], b=7))
    before = _tables(tmp_path)
    assert len(before) == 2
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1, 3], 'b': [7, 7]}))")
    _repaired(tmp_path)
    assert _members(tmp_path) == before
    assert _values(tmp_path) == [1, 1, 1, 1, 2, 3]
    _in_new_process(tmp_path, "ns.repartition()")
    assert _values(tmp_path, filter="b = 7") == [1, 1, 1, 1, 2, 3]


def test_columns_that_pylance_drops_after_a_repair_of_given_out_ids_come_back(tmp_path: Path) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, ["a"]).append(_rows([1, 1, 2]))
    _lose_rows(tmp_path, "object_type = 'table'")
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1], 'b': [0]}))")
    _repaired(tmp_path)
    lance.dataset(tmp_path / "__manifest").drop_columns(["read_version"])
    manifest = lance.dataset(tmp_path / "__manifest")
    manifest.drop_columns([name for name in manifest.schema.names if name.startswith("partition_field_")])
    before = _tables(tmp_path)
    PartitionedNamespace.repair(str(tmp_path))
    assert _tables(tmp_path) == before
    assert _values(tmp_path) == [1, 1, 1, 2]
    assert lance_df.verify(str(tmp_path), deep=True).ok


@pytest.mark.parametrize("fields", [["a"], ["a", "b"]])
def test_a_member_whose_namespace_is_lost_stays_at_the_version_that_is_read(
    tmp_path: Path, fields: list[str]
) -> None:
    PartitionedNamespace.create(str(tmp_path), _SCHEMA, fields).append(_rows([1, 2]))
    before = _tables(tmp_path)
    _lose_rows(tmp_path, "object_type = 'namespace'")
    _in_new_process(tmp_path, "ns.append(pa.table({'a': [1], 'b': [0]}))")
    assert _values(tmp_path) == [1, 1, 2]
    _repaired(tmp_path)
    assert _tables(tmp_path) == before
    assert _values(tmp_path) == [1, 1, 2]
