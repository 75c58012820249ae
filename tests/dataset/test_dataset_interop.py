"""A dataset is a `pyarrow.dataset.Dataset`: pandas, Polars and DuckDB take it as it is."""

from __future__ import annotations

import pickle
from pathlib import Path

import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pytest
from table_histories import rows

import lance_df
from lance_df.scan.request import ScanRequest
from lance_df.table.scan.plan import plan_scan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interop") / "t.lance"
    lance.write_dataset(rows(0, 1000), folder, max_rows_per_file=300).delete("key % 10 = 0")
    return folder


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[ScanRequest]:
    """What reached the planner."""
    seen: list[ScanRequest] = []

    def spy(table: object, request: ScanRequest) -> object:
        seen.append(request)
        return plan_scan(table, request)

    monkeypatch.setattr("lance_df.scanner.plan_scan", spy)
    return seen


def expected() -> pa.Table:
    data = rows(0, 1000)
    return data.filter(pa.array([key % 10 != 0 for key in data["key"].to_pylist()]))


def test_it_is_a_dataset_and_a_stream(folder: Path) -> None:
    ds = lance_df.dataset(folder)
    assert isinstance(ds, pads.Dataset)
    assert pa.table(ds).equals(expected())
    assert pa.RecordBatchReader.from_stream(ds).read_all().num_rows == 900


def test_pandas(folder: Path) -> None:
    ds = lance_df.dataset(folder)
    frame = pd.DataFrame.from_arrow(ds.scanner(["key", "name"]))
    assert frame["key"].tolist() == expected()["key"].to_pylist()
    assert pd.DataFrame.from_arrow(ds).shape == (900, 10)
    small = ds.to_pandas(columns=["key"], filter="key < 5")
    assert small["key"].tolist() == [1, 2, 3, 4]


def test_polars_pushes_columns_and_filters(folder: Path, requests: list[ScanRequest]) -> None:
    ds = lance_df.dataset(folder)
    lazy = pl.scan_pyarrow_dataset(ds).filter((pl.col("key") > 995) & pl.col("flag").not_()).select("name")
    assert lazy.collect()["name"].to_list() == [f"name {key % 13}" for key in (997, 998)]
    assert requests[-1].predicate is not None
    assert set(requests[-1].columns or ()) <= {"name", "key", "flag"}
    assert pl.DataFrame(ds).shape == (900, 10)


def test_duckdb_pushes_columns_and_filters(folder: Path, requests: list[ScanRequest]) -> None:
    flights = lance_df.dataset(folder)
    answer = duckdb.sql("SELECT count(*), sum(key), min(name) FROM flights WHERE key > 990 AND small = 3")
    wanted = [key for key in range(991, 1000) if key % 7 == 3 and key % 10]
    assert answer.fetchall() == [(len(wanted), sum(wanted), min(f"name {key % 13}" for key in wanted))]
    assert requests[-1].predicate is not None
    assert set(requests[-1].columns or ()) <= {"name", "key", "small"}
    assert flights.version == 2


def test_what_the_base_class_has(folder: Path) -> None:
    ds = lance_df.dataset(folder)
    filtered = ds.filter(pc.field("key") > 990).filter(pc.field("key") < 995)
    assert filtered.to_table(["key"])["key"].to_pylist() == [991, 992, 993, 994]
    assert filtered.count_rows() == 4
    assert ds.sort_by([("key", "descending")]).head(1)["key"].to_pylist() == [999]
    keys = lance_df.dataset(folder, default_scan_options={"columns": ["key"]})
    joined = keys.join(pads.dataset(pa.table({"key": [992], "extra": ["x"]})), "key", join_type="inner")
    assert joined.to_table()["extra"].to_pylist() == ["x"]
    with pytest.raises(NotImplementedError):
        _ = ds.partition_expression
    with pytest.raises(NotImplementedError):
        ds.replace_schema(ds.schema)


def test_datasets_scanners_and_fragments_travel(folder: Path) -> None:
    ds = lance_df.dataset(folder, version=1, default_scan_options={"with_row_id": True})
    again = pickle.loads(pickle.dumps(ds))
    assert (again.version, again.uri) == (1, ds.uri)
    assert again.to_table().equals(ds.to_table())
    assert "_rowid" in again.schema.names
    fragment = pickle.loads(pickle.dumps(ds.get_fragments()[2]))
    assert fragment.fragment_id == 2
    assert fragment.count_rows() == 300


def test_no_secret_is_shown(folder: Path) -> None:
    ds = lance_df.dataset(folder, storage_options={})
    assert repr(ds) == f"<lance_df.LanceDataset {folder} version 2>"
    shown = lance_df.dataset(folder, storage_options={"auto_mkdir": False})
    assert "auto_mkdir" not in repr(shown) + repr(shown.scanner()) + str(vars(shown.scanner()).keys())


def test_readers_may_be_dropped_half_way(folder: Path) -> None:
    ds = lance_df.dataset(folder)
    reader = ds.scanner(batch_size=10).to_reader()
    assert reader.read_next_batch().num_rows == 10
    reader.close()
    batches = ds.to_batches(batch_size=7)
    assert next(batches).num_rows == 7
    batches.close()


def test_extension_types_come_back(tmp_path: Path) -> None:
    data = pa.table(
        {
            "json": pa.array(['{"a":1}', None, "[]"], pa.json_()),
            "uuid": pa.array([bytes([each]) * 16 for each in range(3)], pa.uuid()),
            "nested": pa.StructArray.from_arrays(
                [pa.array([bytes(16), None, bytes(16)], pa.uuid()), pa.array(["1", "2", None], pa.json_())],
                names=["id", "doc"],
            ),
            "tensor": pa.FixedShapeTensorArray.from_storage(
                pa.fixed_shape_tensor(pa.float32(), [1, 2]), pa.array([[1, 2]] * 3, pa.list_(pa.float32(), 2))
            ),
        }
    )
    for version in ("2.0", "2.1", "2.2"):
        theirs = lance.write_dataset(data, tmp_path / version, data_storage_version=version)
        ours = lance_df.dataset(tmp_path / version)
        assert ours.schema.equals(theirs.schema, check_metadata=True)
        assert ours.to_table().equals(theirs.to_table())
        assert ours.to_table().schema.equals(theirs.to_table().schema, check_metadata=True)
        assert ours.take([2, 0]).equals(theirs.take([2, 0]))


class UnhashableType(pa.ExtensionType):
    """An extension type that another package has registered, as pylance does with bfloat16."""

    __hash__ = None

    def __init__(self) -> None:
        super().__init__(pa.int16(), "test.unhashable")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> UnhashableType:
        return cls()


def test_extension_types_need_not_be_hashable(tmp_path: Path) -> None:
    pa.register_extension_type(UnhashableType())
    try:
        values = pa.ExtensionArray.from_storage(UnhashableType(), pa.array([1, None, 3], pa.int16()))
        lance.write_dataset(pa.table({"x": values, "i": range(3)}), tmp_path / "t.lance")
        found = lance_df.dataset(tmp_path / "t.lance").to_table(filter="i > 0")
        assert found["i"].to_pylist() == [1, 2]
        assert found["x"].combine_chunks().storage.to_pylist() == [None, 3]
    finally:
        pa.unregister_extension_type("test.unhashable")
