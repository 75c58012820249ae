"""Small fragments that are read as one give what they give one by one."""

import datetime as dt
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CorruptDataError
from lance_df.table.open import open_table
from lance_df.table.scan import plan_scan
from lance_df.table.scan_plan import ScanRequest
from lance_df.table.small_fragments import SmallFragmentsTask

_ROWS = 331


def _rows() -> pa.Table:
    rng = np.random.default_rng(5)
    number = np.arange(_ROWS)

    def sometimes_null(values: list[object], data_type: pa.DataType) -> pa.Array:
        gone = rng.random(_ROWS) < 0.15
        return pa.array([None if no else value for value, no in zip(values, gone, strict=True)], data_type)

    texts = ["é" * int(length) for length in rng.integers(0, 9, _ROWS)]
    return pa.table(
        {
            "id": pa.array(number),
            "small": sometimes_null(rng.integers(0, 9, _ROWS).tolist(), pa.int16()),
            "float": sometimes_null(rng.random(_ROWS).tolist(), pa.float64()),
            "flag": sometimes_null((rng.random(_ROWS) < 0.5).tolist(), pa.bool_()),
            "text": sometimes_null(texts, pa.string()),
            "wide": pa.array([text.encode() for text in texts], pa.large_binary()),
            "same": pa.array(["x"] * _ROWS),
            "none": pa.nulls(_ROWS, pa.int32()),
            "day": pa.array([dt.date(2020, 1, 1) + dt.timedelta(int(n)) for n in number]),
            "vector": pa.array(rng.random((_ROWS, 3)).tolist(), pa.list_(pa.float32(), 3)),
            "list": pa.array([list(range(int(n) % 4)) for n in number], pa.list_(pa.int32())),
            "struct": pa.array([{"a": int(n), "b": None if n % 3 else str(n)} for n in number]),
            "code": pa.array([["p", "q", None][int(n) % 3] for n in number]).dictionary_encode(),
        }
    )


def _write(folder: Path, writer: str, version: str) -> pa.Table:
    rows = _rows()
    module = lance if writer == "pylance" else lance_df
    module.write_dataset(rows, str(folder), max_rows_per_file=7, data_storage_version=version)
    return lance.dataset(str(folder)).to_table()


@pytest.mark.parametrize("writer", ["pylance", "ours"])
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_all_types_read_as_pylance_reads_them(tmp_path: Path, writer: str, version: str) -> None:
    expected = _write(tmp_path, writer, version)
    plan = plan_scan(open_table(str(tmp_path)), ScanRequest())
    assert len(plan.tasks) == 1
    (task,) = plan.tasks
    assert isinstance(task, SmallFragmentsTask)
    assert task.num_rows == _ROWS
    joined = task._joined()
    assert joined is not None
    assert pa.Table.from_batches([joined]).equals(expected.replace_schema_metadata(joined.schema.metadata))
    batches = list(plan_scan(open_table(str(tmp_path)), ScanRequest(batch_rows=50)).tasks[0].read())
    assert [batch.num_rows for batch in batches] == [50] * 6 + [31]


@pytest.mark.parametrize("version", ["2.0", "2.2"])
def test_filters_deleted_rows_and_system_columns(tmp_path: Path, version: str) -> None:
    _write(tmp_path, "pylance", version)
    lance.dataset(str(tmp_path)).delete("id % 5 = 1 or id between 70 and 90")
    ours, theirs = lance_df.dataset(str(tmp_path)), lance.dataset(str(tmp_path))
    assert any(isinstance(task, SmallFragmentsTask) for task in plan_scan(ours._table, ScanRequest()).tasks)
    for predicate in (None, "small > 3", "id = 17", "text is null and flag", "id > 1000", "id % 2 = 0"):
        options = {"filter": predicate, "columns": ["id", "text", "list"], "with_row_id": True}
        assert ours.to_table(**options).equals(theirs.to_table(**options)), predicate
        scanned = ours.scanner(filter=predicate, columns=["id"], with_row_address=True).to_table()
        assert scanned.equals(
            theirs.scanner(filter=predicate, columns=["id"], with_row_address=True).to_table()
        )


def test_deleted_rows_may_be_asked_for(tmp_path: Path) -> None:
    _write(tmp_path, "pylance", "2.2")
    lance.dataset(str(tmp_path)).delete("id % 5 = 1")
    options = {"columns": ["id"], "with_row_id": True, "include_deleted_rows": True}
    ours = lance_df.dataset(str(tmp_path)).scanner(**options).to_table()
    assert ours.equals(lance.dataset(str(tmp_path)).scanner(**options).to_table())


def test_files_of_other_columns_are_read_one_by_one(tmp_path: Path) -> None:
    _write(tmp_path, "pylance", "2.2")
    lance.write_dataset(pa.table({"id": pa.array([-1, -2])}), str(tmp_path), mode="append")
    table = open_table(str(tmp_path))
    (task,) = plan_scan(table, ScanRequest(columns=("id", "text"))).tasks
    assert isinstance(task, SmallFragmentsTask)
    assert task._joined() is None
    rows = pa.Table.from_batches(task.read())
    assert rows["id"].to_pylist() == [*range(_ROWS), -1, -2]
    assert rows["text"].to_pylist()[-2:] == [None, None]


@pytest.mark.parametrize("damage", ["cut", "flip", "missing"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    _write(tmp_path / "good", "pylance", "2.2")
    shutil.copytree(tmp_path / "good", tmp_path / "bad")
    dataset = lance_df.dataset(str(tmp_path / "bad"))
    name = dataset.get_fragments()[20].metadata.files[0].path
    file = tmp_path / "bad" / "data" / name
    if damage == "missing":
        file.unlink()
    else:
        data = file.read_bytes()
        file.write_bytes(data[:-1] if damage == "cut" else data[:-40] + b"\xff" * 8 + data[-32:])
    with pytest.raises(CorruptDataError, match=name):
        dataset.to_table()
