"""Casts of columns that have indices: zone maps follow, other indices are refused, no index misleads."""

from __future__ import annotations

import itertools
import subprocess
import sys

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError, RetryableConflictError, UnsupportedFeatureError
from lance_df.format.operations import Merge
from lance_df.table.commit.loop import commit_change
from lance_df.table.commit.row_account import NO_ROWS
from lance_df.table.evolution.alter_columns import Alteration, columns_altered
from lance_df.table.maintenance.scalar_index import create_index

pytestmark = pytest.mark.engine

FILTERS = ("a = 7", "a > 50", "a between 10 and 12", "a is null", "s = 't0031'", "s >= 't0058'")


def rows(start: int = 0, count: int = 40) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "a": pa.array([None if i % 11 == 0 else i for i in numbers], pa.int32()),
            "s": [f"t{i:04}" for i in numbers],
        }
    )


def make(path: str, *, version: str = "2.1", stable: bool = False) -> lance_df.LanceDataset:
    """Three fragments, of which two are covered by zone maps, and deleted rows in all."""
    made = lance_df.write_dataset(
        rows(), path, data_storage_version=version, enable_stable_row_ids=stable, max_rows_per_file=20
    )
    made.create_scalar_index("a", "ZONEMAP", name="bounds of a")
    made.create_scalar_index("s", "ZONEMAP")
    made = lance_df.write_dataset(rows(40, 20), path, mode="append")
    made.delete("k in (7, 12, 39, 59)")
    return made


def names_of(dataset: lance_df.LanceDataset) -> set[str]:
    return {index.name for index in dataset._table.indices}


def check(path: str, expected: pa.Table) -> None:
    """Compare the rows, also of filters, with and without indices, in both readers."""
    ours, theirs = lance_df.dataset(path), lance.dataset(path)
    theirs.validate()
    assert ours.to_table() == theirs.to_table() == expected
    for text in FILTERS:
        found = theirs.scanner(filter=text, use_scalar_index=False).to_table()
        assert theirs.to_table(filter=text) == found, text
        assert ours.to_table(filter=text) == found, text
        assert ours.scanner(filter=text, use_scalar_index=False).to_table() == found, text


VERSIONS = ("0.1", "2.0", "2.1", "2.2")


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("version", VERSIONS)
def test_zone_maps_follow_a_cast(tmp_path, version, stable):
    path = str(tmp_path / "t")
    made = make(path, version=version, stable=stable)
    before, old = made.to_table(), made.version
    made.alter_columns(
        {"path": "a", "data_type": pa.int64()}, {"path": "s", "data_type": pa.large_string(), "name": "s"}
    )
    schema = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("s", pa.large_string())])
    check(path, before.cast(schema))
    assert names_of(made) == {"bounds of a", "s_idx"}
    assert {index.name: list(index.covered_fragments()) for index in made._table.indices} == {
        "bounds of a": [0, 1],
        "s_idx": [0, 1],
    }
    assert lance.dataset(path, version=old).to_table() == before


def test_versions_from_before_a_cast_are_what_they_were_for_a_new_process(tmp_path):
    program = (
        "import sys, lance_df\n"
        "for argument in sys.argv[1:]:\n"
        "    path, old = argument.split('@')\n"
        "    then, now = lance_df.dataset(path, version=int(old)), lance_df.dataset(path)\n"
        "    print(then.schema.field('a').type, then.count_rows('a = 8'), now.schema.field('a').type,"
        " now.count_rows('a = 8'), now.count_rows('a = 7'))"
    )
    arguments = []
    for number, (version, stable) in enumerate(itertools.product(VERSIONS, (False, True))):
        path = str(tmp_path / str(number))
        made = make(path, version=version, stable=stable)
        arguments.append(f"{path}@{made.version}")
        made.alter_columns(
            {"path": "a", "data_type": pa.int64()}, {"path": "s", "data_type": pa.large_string(), "name": "s"}
        )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["int32 1 int64 1 0"] * 8


def test_values_beyond_the_old_type_are_found_afterwards(tmp_path):
    path = str(tmp_path / "t")
    made = make(path)
    made.alter_columns({"path": "a", "data_type": pa.int64()})
    more = pa.table({"k": [100], "a": [2**40], "s": ["z"]})
    lance_df.write_dataset(more, path, mode="append")
    assert lance_df.dataset(path).to_table(filter=f"a = {2**40}").num_rows == 1
    assert lance.dataset(path).to_table(filter=f"a = {2**40}").num_rows == 1


def test_a_renamed_column_keeps_its_zone_map_through_a_cast(tmp_path):
    path = str(tmp_path / "t")
    made = make(path)
    made.alter_columns({"path": "a", "name": "b", "data_type": pa.int64()})
    assert names_of(made) == {"bounds of a", "s_idx"}
    assert (
        made.to_table(filter="b = 8").num_rows == lance.dataset(path).to_table(filter="b = 8").num_rows == 1
    )


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_other_indices_are_refused_with_what_to_do(tmp_path, kind):
    path = str(tmp_path / "t")
    make(path)
    lance.dataset(path).create_scalar_index("a", kind, name="theirs")
    made = lance_df.dataset(path)
    with pytest.raises(UnsupportedFeatureError, match=r"drop_index.*'theirs'") as caught:
        made.alter_columns({"path": "a", "data_type": pa.int64()})
    assert "bounds of a" not in str(caught.value)
    assert lance_df.dataset(path).version == made.version
    # columns beside it can be cast
    made.alter_columns({"path": "s", "data_type": pa.large_string()})
    assert names_of(made) == {"bounds of a", "s_idx", "theirs"}
    made.drop_index("theirs")
    made.alter_columns({"path": "a", "data_type": pa.int64()})
    assert names_of(made) == {"bounds of a", "s_idx"}


def test_a_cast_that_keeps_field_ids_drops_the_index_in_the_same_version(tmp_path):
    path = str(tmp_path / "t")
    table = make(path)._table
    with columns_altered(table, [Alteration(path="a", data_type=pa.int64())], keeps_ids=True) as operation:
        after = commit_change(table, operation, rows=NO_ROWS)
    assert isinstance(operation, Merge)
    assert {index.name for index in after.indices} == {"s_idx"}
    assert after.version == table.version + 1
    assert {index.name for index in table.indices} == {"bounds of a", "s_idx"}
    check(path, lance.dataset(path).to_table())


def test_values_that_a_merge_replaces_leave_the_coverage_of_indices(tmp_path):
    """The same field ids and types in other files: whoever commits such a merge may have changed values."""
    path = str(tmp_path / "t")
    made = make(path)
    table = made._table
    with columns_altered(table, [Alteration(path="a", data_type=pa.int64())], keeps_ids=True) as operation:
        one, *others = operation.fragments
        kept = [table.fragments[i + 1] for i in range(len(others))]
        same_types = Merge((one, *kept), table.schema)
        after = commit_change(table, same_types, rows=NO_ROWS)
        found = {index.name: list(index.covered_fragments()) for index in after.indices}
    assert found == {"bounds of a": [1], "s_idx": [0, 1]}


def test_an_index_that_was_made_of_the_old_type_is_not_committed_after_the_cast(tmp_path):
    path = str(tmp_path / "t")
    table = make(path)._table
    with columns_altered(table, [Alteration(path="a", data_type=pa.int64())], keeps_ids=True) as operation:
        commit_change(table, operation, rows=NO_ROWS)
    with pytest.raises(RetryableConflictError):
        create_index(table, "a", "ZONEMAP", name="late")
    assert "late" not in names_of(lance_df.dataset(path))


def test_a_zone_map_that_cannot_follow_is_a_warning(tmp_path, monkeypatch):
    path = str(tmp_path / "t")
    made = make(path)
    before = made.to_table()

    def refuse(*_args, **_options):
        raise UnsupportedFeatureError("no")

    monkeypatch.setattr("lance_df.table.maintenance.zone_map_casts.write_zone_map", refuse)
    with pytest.warns(RuntimeWarning, match="zone maps"):
        made.alter_columns({"path": "a", "data_type": pa.int64()})
    assert names_of(made) == {"s_idx"}
    check(path, before.set_column(1, "a", before["a"].cast(pa.int64())))


def test_extension_types_are_not_cast_to_what_they_store(tmp_path):
    """Nothing would change: the name of the extension type is metadata of the column."""
    values = pa.table({"u": pa.array([bytes(16)], pa.uuid()), "p": [1]})
    alteration = {"path": "u", "data_type": pa.binary(16)}
    made = lance_df.write_dataset(values, tmp_path / "table")
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "namespace", values.schema, ["p"])
    with pytest.raises(OSError, match="Cannot cast"):
        lance.dataset(str(tmp_path / "table")).alter_columns(alteration)
    for altered in (made, namespace):
        before = altered.version
        with pytest.raises(InvalidInputError, match=r"'u' has the extension type 'arrow\.uuid'"):
            altered.alter_columns(alteration)
        assert altered.version == before
