"""Operations that bring data files of another 2.x version than the table's: pylance opens what they make."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.fragment import DataFile, FragmentMetadata, write_fragments
from lance_df.schema import LanceSchema

ROWS = pa.table({"i": [1, 2], "n": ["a", "b"]})
PAIRS = [("2.2", "2.1"), ("2.1", "2.2"), ("2.1", "2.0"), ("2.2", "2.0")]
Operation = lance_df.LanceOperation


def written(table: Path, rows: pa.Table, version: str) -> list[FragmentMetadata]:
    """Write files of a version elsewhere, and copy them to the table."""
    staged = table.parent / "staged"
    fragments = write_fragments(rows, str(staged), data_storage_version=version)
    for file in (staged / "data").iterdir():
        shutil.copy(file, table / "data")
    shutil.rmtree(staged)
    return fragments


def merge(table: Path, old: FragmentMetadata, version: str) -> Any:
    (added,) = written(table, pa.table({"m": [5, 6]}), version)
    file = added.files[0]
    files = [*old.files, DataFile(file.path, [2], [0], file.file_major_version, file.file_minor_version)]
    schema = LanceSchema.from_pyarrow(pa.schema([*ROWS.schema, ("m", pa.int64())]))
    return Operation.Merge([FragmentMetadata(old.id, files, old.physical_rows)], schema)


def update_in_place(table: Path, old: FragmentMetadata, version: str) -> Any:
    (added,) = written(table, pa.table({"i": [7, 8]}), version)
    file, held = added.files[0], old.files[0]
    version_of_old = held.file_major_version, held.file_minor_version
    files = [
        DataFile(held.path, [-2, 1], held.column_indices, *version_of_old),
        DataFile(file.path, [0], [0], file.file_major_version, file.file_minor_version),
    ]
    changed = FragmentMetadata(old.id, files, old.physical_rows)
    return Operation.Update(updated_fragments=[changed], fields_modified=[0])


def replacement(table: Path, old: FragmentMetadata, version: str) -> Any:
    (added,) = written(table, pa.table({"i": [7, 8]}), version)
    return Operation.DataReplacement([Operation.DataReplacementGroup(old.id, added.files[0])])


OPERATIONS = {
    "append": lambda table, old, version: Operation.Append(written(table, ROWS, version)),
    "rewrite": lambda table, old, version: Operation.Rewrite(
        groups=[Operation.RewriteGroup([old], written(table, ROWS, version))], rewritten_indices=[]
    ),
    "update": lambda table, old, version: Operation.Update(
        removed_fragment_ids=[old.id], new_fragments=written(table, ROWS, version)
    ),
    "update in place": update_in_place,
    "merge": merge,
    "data replacement": replacement,
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize(("table_version", "file_version"), PAIRS)
def test_pylance_opens_tables_of_files_of_several_versions(
    tmp_path: Path, name: str, table_version: str, file_version: str
) -> None:
    table = tmp_path / "t"
    dataset = lance_df.write_dataset(ROWS, table, data_storage_version=table_version)
    old = dataset.get_fragments()[0].metadata
    operation = OPERATIONS[name](table, old, file_version)
    committed = lance_df.LanceDataset.commit(str(table), operation, read_version=1)
    theirs = lance.dataset(str(table))
    assert theirs.data_storage_version == committed.data_storage_version == table_version
    assert theirs.to_table().equals(committed.to_table())
    theirs.validate()
    # what follows keeps the flag
    committed.delete("i = 7 OR i = 1")
    assert lance.dataset(str(table)).to_table().equals(committed.to_table())


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("key", ["packed", "lance-encoding:packed"])
def test_only_structs_are_packed(tmp_path: Path, version: str, key: str) -> None:
    texts, numbers = pa.list_(pa.string()), pa.list_(pa.int32())
    rows = pa.table(
        [
            pa.array([[1], [2, None], None, []], numbers),
            pa.array([["é"], None, [], [None, "x"]], texts),
            pa.array(range(4), pa.int64()),
        ],
        schema=pa.schema(
            [
                pa.field(name, kind, metadata={key: "true"})
                for name, kind in (("numbers", numbers), ("texts", texts), ("plain", pa.int64()))
            ]
        ),
    )
    dataset = lance_df.write_dataset(rows, tmp_path / "t", data_storage_version=version)
    assert dataset.to_table().equals(rows)
    assert dataset.take([3, 1]).equals(rows.take([3, 1]))
    (path,) = (tmp_path / "t" / "data").iterdir()
    for library in (lance, lance_df):
        if version == "2.0" and library is lance:
            continue  # which numbers the columns of such files otherwise
        file = library.file.LanceFileReader(str(path)).read_all().to_table()
        assert file.to_pydict() == rows.to_pydict()
    lance.write_dataset(rows, str(tmp_path / "theirs"), data_storage_version=version)
    assert lance_df.dataset(tmp_path / "theirs").to_table().equals(rows)
