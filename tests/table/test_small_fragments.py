"""Small fragments that are read as one give what they give one by one."""

import datetime as dt
import shutil
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.encodings.v2_1.page_run import decode_run
from lance_df.errors import CorruptDataError
from lance_df.file.v2 import columns_2_1
from lance_df.scan.request import ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan.plan import plan_scan
from lance_df.table.scan.small_fragments import SmallFragmentsTask

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


def test_pages_of_a_constant_each_and_of_plain_values_are_decoded_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = np.repeat(np.arange(40), 6)
    rows = pa.table(
        {
            "id": pa.array(np.random.default_rng(3).integers(0, 2**62, 240)),
            "int": pa.array(number.astype(np.int16)),
            "text": pa.array(["é" * (int(n) % 5) for n in number]),
            "large": pa.array([b"\xff" * (int(n) % 3) for n in number], pa.large_binary()),
            "flag": pa.array((number % 2).astype(bool)),
            "fixed": pa.array([bytes([int(n), 1, 2]) for n in number], pa.binary(3)),
            "sum": pa.array([int(n) - 20 for n in number], pa.int64()).cast(pa.decimal128(20, 0)),
            "some": pa.array([None if n % 3 == 0 else int(n) for n in number], pa.int32()),
            "vector": pa.array(np.random.default_rng(4).random((240, 2)).tolist(), pa.list_(pa.float64(), 2)),
        }
    )
    lance_df.write_dataset(rows, str(tmp_path), max_rows_per_file=6, data_storage_version="2.2")
    decoded = []

    def counted(run, *rest, **options):
        decoded.append(len(run.num_rows))
        return decode_run(run, *rest, **options)

    monkeypatch.setattr(columns_2_1, "decode_run", counted)
    dataset = lance_df.dataset(str(tmp_path))
    assert dataset.to_table().equals(rows)
    # of "some" a part of the pages has nothing but null
    assert sorted(decoded) == [14, 26, *[40] * 8]
    for places in ([], [7], [0, 5, 6, 100, 239], list(range(3, 200, 7))):
        wanted = pa.array(places, pa.int64())
        ids = rows["id"].take(wanted)
        assert dataset.to_table(filter=pc.field("id").isin(ids)).equals(rows.take(wanted))
