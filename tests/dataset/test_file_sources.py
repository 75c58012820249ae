"""`write_dataset` and `append` take frames, relations and files of other tools: rows, order and types."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lance_df
from lance_df import partition
from lance_df.errors import InvalidInputError, NotFoundError

pytestmark = pytest.mark.engine

ROWS = pa.table(
    {
        "id": pa.array(range(1_000), pa.int64()),
        "s": [f"x{n % 7}" if n % 5 else None for n in range(1_000)],
        "d": [dt.date(2024, 1, 1) + dt.timedelta(n % 40) for n in range(1_000)],
        "f": [n / 4 for n in range(1_000)],
    }
)


def sources(folder: Path) -> dict[str, Any]:
    pq.write_table(ROWS.slice(0, 600), folder / "part-1.parquet")
    pq.write_table(ROWS.slice(600), folder / "part-2.parquet")
    pyarrow.csv.write_csv(ROWS, folder / "rows.csv")
    context, session = datafusion.SessionContext(), lance_df.SessionContext()
    context.from_arrow(ROWS, name="t")
    session.from_arrow(ROWS, name="t")
    frame = pl.DataFrame(pl.from_arrow(ROWS))
    return {
        "polars": frame,
        "lazy": frame.lazy().filter(pl.col("id") >= 0),
        "duckdb": duckdb.sql("SELECT * FROM ROWS"),
        "datafusion": context.sql("SELECT * FROM t ORDER BY id"),
        "session": session.sql("SELECT * FROM t ORDER BY id"),
        "pandas": ROWS.to_pandas(),
        "glob": str(folder / "part-*.parquet"),
        "deep glob": str(folder.parent / "**" / "part-*.parquet"),
        "path": folder / "rows.csv",
    }


NAMES = ["polars", "lazy", "duckdb", "datafusion", "session", "pandas", "glob", "deep glob", "path"]


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_namespaces_take_them(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    source = sources(tmp_path / "in")[name]
    written = lance_df.write_dataset(source, tmp_path / "t.lance").to_table()
    assert written.column_names == ROWS.column_names
    assert written.cast(ROWS.schema).equals(ROWS)
    kinds = [pa.large_string() if each == pa.large_string() else each for each in written.schema.types]
    assert kinds[0] == pa.int64()
    assert kinds[1] in (pa.string(), pa.large_string())
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, [partition.bucket("id", 3)])
    made.append(sources(tmp_path / "in")[name])
    assert made.to_table().sort_by("id").equals(ROWS)


def test_a_lazy_frame_is_taken_in_parts(tmp_path: Path) -> None:
    lazy = pl.LazyFrame({"a": range(600_000)}).with_columns(b=pl.col("a") * 2)
    ds = lance_df.write_dataset(lazy, tmp_path / "t.lance")
    assert ds.to_table().equals(lazy.collect().to_arrow())
    again = lance_df.write_dataset(lance_df.scan_lance(ds), tmp_path / "again.lance")
    assert again.to_table().equals(ds.to_table())


def test_files_with_other_columns_are_joined(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([2**40], pa.int64()), "c": [1.5]}), tmp_path / "2.parquet")
    written = lance_df.write_dataset(str(tmp_path / "*.parquet"), tmp_path / "t.lance").to_table()
    assert written.to_pylist() == [{"a": 1, "b": "x", "c": None}, {"a": 2**40, "b": None, "c": 1.5}]


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.bz2", ".csv.zst"])
def test_only_empty_fields_of_csv_are_null(tmp_path: Path, suffix: str) -> None:
    texts = {
        "two": ('a,b\nx,""\n,NA\nNULL,nan\n', {"a": ["x", None, "NULL"], "b": ["", "NA", "nan"]}),
        "one": ("a\n1\n\n3\n", {"a": [1, None, 3]}),
        "lines": ('a,b\n"x\ny",1\n', {"a": ["x\ny"], "b": [1]}),
    }
    for name, (text, wanted) in texts.items():
        with pa.output_stream(tmp_path / (name + suffix)) as stream:
            stream.write(text.encode())
        ds = lance_df.write_dataset(tmp_path / (name + suffix), tmp_path / name)
        assert ds.to_table().to_pydict() == wanted


def test_values_of_csv_that_do_not_fit_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n" + "1234567\n" * 1_500_000 + "x\n")
    with pytest.raises(InvalidInputError, match=r"a\.csv: .* inferred from the beginning"):
        lance_df.write_dataset(tmp_path / "a.csv", tmp_path / "t.lance")
    ds = lance_df.write_dataset(tmp_path / "a.csv", tmp_path / "t.lance", pa.schema([("a", pa.string())]))
    assert ds.count_rows("a = 'x'") == 1


def test_of_several_files_the_one_that_does_not_fit_is_named(tmp_path: Path) -> None:
    for number, values in enumerate(([1], [2**60 + 1], [1.5])):
        pq.write_table(pa.table({"a": values}), tmp_path / f"{number}.parquet")
    with pytest.raises(InvalidInputError, match=r"1\.parquet: cannot be read as parquet: .* not in range"):
        lance_df.write_dataset(str(tmp_path / "*.parquet"), tmp_path / "t.lance")
    assert not (tmp_path / "t.lance").exists()


def test_csv_has_the_types_that_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,n,day\n01234,1,2024-01-01\n,2,\n")
    schema = pa.schema([("zip", pa.string()), ("n", pa.int16()), ("day", pa.timestamp("us"))])
    wanted = [
        {"zip": "01234", "n": 1, "day": dt.datetime(2024, 1, 1)},
        {"zip": None, "n": 2, "day": None},
    ]
    ds = lance_df.write_dataset(tmp_path / "a.csv", tmp_path / "t.lance", schema)
    assert ds.schema.equals(schema)
    assert ds.to_table().to_pylist() == wanted
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, [partition.identity("n")])
    made.append(tmp_path / "a.csv")
    assert sorted(made.to_table().to_pylist(), key=lambda row: row["n"]) == wanted


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("none.parquet", NotFoundError, "no such file"),
        ("none-*.csv", NotFoundError, "no file matches"),
        ("a.txt", InvalidInputError, "end in .parquet or .csv"),
        ("*", InvalidInputError, "all be Parquet or all be CSV"),
        ("broken.parquet", InvalidInputError, "cannot be read as parquet"),
        ("", InvalidInputError, "lance_df.dataset"),
    ],
)
def test_what_is_no_source_is_an_error(tmp_path: Path, name: str, error: type, message: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pyarrow.csv.write_csv(ROWS, folder / "rows.csv")
    (folder / "broken.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(error, match=message):
        lance_df.write_dataset(f"{folder}/{name}", tmp_path / "t.lance")
    assert not (tmp_path / "t.lance").exists()


def test_files_of_a_store(tmp_path: Path) -> None:
    import fsspec

    files = fsspec.filesystem("memory")
    for number, part in enumerate((ROWS.slice(0, 500), ROWS.slice(500))):
        with files.open(f"/sources/part-{number}.parquet", "wb") as file:
            pq.write_table(part, file)
    ds = lance_df.write_dataset("memory://sources/part-*.parquet", tmp_path / "t.lance")
    assert ds.to_table().equals(ROWS)


def test_a_file_whose_name_has_wildcards(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a[1].parquet")
    assert lance_df.write_dataset(str(tmp_path / "a[1].parquet"), tmp_path / "t.lance").count_rows() == 1_000


def test_lists_of_files(tmp_path):
    for number in range(3):
        pq.write_table(pa.table({"a": [number]}), tmp_path / f"{number}.parquet")
    (tmp_path / "x.csv").write_text("a\n7\n")
    given = [tmp_path / "2.parquet", str(tmp_path / "[01].parquet")]
    dataset = lance_df.write_dataset(given, tmp_path / "t.lance")
    assert dataset.to_table()["a"].to_pylist() == [2, 0, 1]
    with pytest.raises(lance_df.InvalidInputError, match="must all be Parquet"):
        lance_df.write_dataset([tmp_path / "1.parquet", tmp_path / "x.csv"], tmp_path / "u.lance")
    with pytest.raises(lance_df.InvalidInputError, match="has no schema"):
        lance_df.write_dataset([], tmp_path / "u.lance")


@pytest.mark.parametrize("suffix", [".csv", ".csv.zst", ".csv.gz"])
def test_integers_of_csv_are_exact(tmp_path: Path, suffix: str) -> None:
    """Types are those of all files together: a column with a fraction in one of them is a double."""
    texts = [
        "a,b,c,d\n1,2.5,-9999999999999999999999,18446744073709551615\n",
        f"b,a,e\n18446744073709551615,99999999999999999999,{'9' * 39}\n",
        "e\n\n1\n",
        "a,b\n",
    ]
    for number, text in enumerate(texts):
        with pa.output_stream(str(tmp_path / f"{number}{suffix}")) as stream:
            stream.write(text.encode())
    written = lance_df.write_dataset(
        str(tmp_path / f"*{suffix}"), f"memory://{tmp_path.name}.lance"
    ).to_table()
    assert dict(zip(written.schema.names, written.schema.types, strict=True)) == {
        "a": pa.decimal128(38, 0),
        "b": pa.float64(),
        "c": pa.decimal128(38, 0),
        "d": pa.uint64(),
        "e": pa.string(),
    }
    assert written["a"].to_pylist() == [1, 99999999999999999999, None]
    assert written["c"].to_pylist() == [-9999999999999999999999, None, None]
    assert written["d"].to_pylist() == [2**64 - 1, None, None]
    assert written["e"].to_pylist() == [None, "9" * 39, "1"]


def test_csv_that_is_appended_or_merged_has_the_types_of_the_table(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "id": pa.array([1], pa.int32()),
            "code": ["007"],
            "raw": pa.array([b"x"], pa.large_binary()),
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "price": pa.array([1], pa.decimal128(20, 3)),
            "kind": pa.array(["a"]).dictionary_encode(),
        }
    )
    file = tmp_path / "rows.csv"
    file.write_text("price,id,code,kind,at,raw\n7,2,0042,5,2024-01-01T00:00:00Z,12\n8.125,3,,b,,\n")
    path = tmp_path / "t.lance"
    lance_df.write_dataset(rows, path)
    by_path = lance_df.write_dataset(str(file), path, mode="append")
    assert by_path.schema == rows.schema
    added = [
        {
            "id": 2,
            "code": "0042",
            "raw": b"12",
            "at": dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
            "price": Decimal("7.000"),
            "kind": "5",
        },
        {"id": 3, "code": None, "raw": None, "at": None, "price": Decimal("8.125"), "kind": "b"},
    ]
    assert by_path.to_table().to_pylist() == rows.to_pylist() + added
    by_path.insert(file)
    assert by_path.count_rows() == 5
    (tmp_path / "merged.csv").write_text("code,id\n08,1\n09,7\n")
    merge = by_path.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(str(tmp_path / "merged.csv"))
    codes = by_path.to_table(columns=["id", "code"]).group_by("id").aggregate([("code", "max")]).to_pylist()
    assert {row["id"]: row["code_max"] for row in codes} == {1: "08", 2: "0042", 3: None, 7: "09"}
    new = lance_df.write_dataset(str(file), tmp_path / "new.lance", mode="append")
    assert new.schema.field("id").type == pa.int64()


def test_csv_with_values_that_do_not_fit_the_table_is_refused(tmp_path: Path) -> None:
    path, file = tmp_path / "t.lance", tmp_path / "rows.csv"
    lance_df.write_dataset(pa.table({"id": pa.array([1], pa.int32())}), path)
    file.write_text("id\n5000000000\n")
    with pytest.raises(InvalidInputError, match=r"rows\.csv.*int32.*5000000000"):
        lance_df.write_dataset(str(file), path, mode="append")
    assert lance_df.dataset(path).count_rows() == 1


def test_open_tables_are_appended_to_with_the_types_of_their_newest_version(tmp_path: Path) -> None:
    path, file = tmp_path / "t.lance", tmp_path / "rows.csv"
    table = lance_df.write_dataset(pa.table({"id": pa.array([1], pa.int32())}), path)
    lance_df.dataset(path).alter_columns({"path": "id", "data_type": pa.int64()})
    file.write_text("id\n5000000000\n")
    table.insert(file)
    assert lance_df.dataset(path).to_table()["id"].to_pylist() == [1, 5000000000]


@pytest.mark.parametrize(
    "form", [str, lambda file: [file], lambda file: (str(file),)], ids=["one", "list", "tuple"]
)
def test_csv_that_is_appended_to_a_namespace_has_its_types(tmp_path: Path, form: Any) -> None:
    schema = pa.schema([("k", pa.int64()), ("code", pa.string())])
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", schema, [partition.identity("k")])
    (tmp_path / "a.csv").write_text("k,code\n1,007\n2,\n")
    namespace.append(form(tmp_path / "a.csv"))
    rows = namespace.to_table().sort_by("k").to_pylist()
    assert rows == [{"k": 1, "code": "007"}, {"k": 2, "code": None}]


@pytest.mark.parametrize("suffix", ["csv", "csv.zst"])
@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("12345678901234567890.12", pa.decimal256(50, 2)),
        ("100000", pa.float16()),
        ("18446744073709551616", pa.json_()),
    ],
)
def test_types_that_csv_is_not_converted_to_are_refused(
    tmp_path: Path, suffix: str, text: str, data_type: pa.DataType
) -> None:
    file = tmp_path / f"rows.{suffix}"
    with pa.output_stream(file, compression="zstd" if suffix.endswith("zst") else None) as stream:
        stream.write(f"x\n{text}\n".encode())
    with pytest.raises(InvalidInputError, match="'x': text of CSV files is not converted to"):
        lance_df.write_dataset(str(file), tmp_path / "t", schema=pa.schema([("x", data_type)]))


def test_a_schema_with_other_types_takes_null_structs_of_required_fields(tmp_path: Path) -> None:
    fields = pa.struct([pa.field("a", pa.int32(), nullable=False), pa.field("b", pa.int32(), nullable=False)])
    packed = pa.field("s", fields, metadata={"lance-encoding:packed": "true"})
    rows = pa.table({"s": pa.array([{"a": 1, "b": 2}, None], fields), "id": pa.array([1, 2], pa.int32())})
    first = lance_df.write_dataset(
        rows.cast(pa.schema([packed, pa.field("id", pa.int32())])), tmp_path / "a", data_storage_version="2.2"
    )
    second = lance_df.write_dataset(
        first,
        tmp_path / "b",
        schema=pa.schema([pa.field("id", pa.int64()), packed]),
        data_storage_version="2.2",
    )
    assert second.to_table().to_pylist() == rows.to_pylist()
    with pytest.raises(InvalidInputError, match="'id'"):
        lance_df.write_dataset(
            pa.table({"id": pa.array([None], pa.int32())}),
            tmp_path / "c",
            schema=pa.schema([pa.field("id", pa.int64(), nullable=False)]),
        )
