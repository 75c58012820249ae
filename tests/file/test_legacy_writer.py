"""0.1 files that ours writes: the same bytes as pylance's, statistics included; and read by both."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from column_cases import table_with_nulls, table_without_nulls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.encodings.plan import RowRange
from lance_df.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from lance_df.file.legacy import reader as legacy_reader
from lance_df.file.legacy.opening import load_metadata
from lance_df.file.legacy.reader import LegacyFileReader
from lance_df.file.legacy.writer import LegacyFileWriter
from lance_df.format.schema import Schema, schema_from_arrow
from lance_df.storage import MappedSource, open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.file.legacy.statistics import LegacyStatistics


def write(path: Path, table: pa.Table, rows_per_group: int = 1024, schema: Schema | None = None) -> bytes:
    schema = schema or schema_from_arrow(table.schema)
    path.unlink(missing_ok=True)
    writer = LegacyFileWriter(
        ByteSink(open_location(path)), schema, rows_per_group=rows_per_group, dictionaries={}
    )
    try:
        for batch in table.to_batches():
            writer.write_batch(batch.columns)
        written = writer.finish()
    except BaseException:
        writer.abort()
        raise
    assert (written.version, written.num_rows, written.column_indices) == ("0.1", table.num_rows, ())
    assert written.fields == tuple(range(len(list(schema.walk()))))
    content = path.read_bytes()
    assert written.size_bytes == len(content)
    return content


def written_by_pylance(root: Path, table: pa.Table, rows_per_group: int = 1024) -> bytes:
    lance.write_dataset(
        table, root, mode="overwrite", data_storage_version="legacy", max_rows_per_group=rows_per_group
    )
    (fragment,) = lance.dataset(root).get_fragments()
    (file,) = fragment.data_files()
    return (root / "data" / file.path).read_bytes()


def before_manifest(tmp_path: Path, content: bytes) -> bytes:
    """Return pages, page table, statistics and dictionaries: the manifest tells the writer's name."""
    (tmp_path / "content").write_bytes(content)
    metadata = load_metadata(MappedSource(str(tmp_path / "content")))
    return content[: metadata.manifest_position]


def assert_same_bytes(tmp_path: Path, table: pa.Table, rows_per_group: int = 1024) -> None:
    ours = write(tmp_path / "f.lance", table, rows_per_group)
    theirs = written_by_pylance(tmp_path / "t", table, rows_per_group)
    assert before_manifest(tmp_path, ours) == before_manifest(tmp_path, theirs)


def reader_of(path: Path) -> LegacyFileReader:
    return LegacyFileReader(MappedSource(str(path)))


def statistics_of(path: Path, name: str) -> LegacyStatistics:
    reader = reader_of(path)
    found = reader.statistics(reader.schema.field(name))
    assert found is not None
    return found


def storable(table: pa.Table) -> pa.Table:
    """Leave out what 0.1 cannot hold: dictionaries without values, and of floats and booleans."""
    names = [
        field.name
        for field, column in zip(table.schema, table.columns, strict=True)
        if "dictionary" not in str(field.type) or column.null_count < len(column)
    ]
    return table.select(names)


@pytest.mark.parametrize("num_rows", [1, 5, 1000])
@pytest.mark.parametrize("make", [table_without_nulls, table_with_nulls])
def test_every_type(tmp_path: Path, num_rows: int, make: Any) -> None:
    table = storable(make(num_rows))
    assert table.num_columns > 35
    assert_same_bytes(tmp_path, table, rows_per_group=300)
    longer = storable(make(num_rows + 13))
    write(tmp_path / "longer", longer, 300)
    write(tmp_path / "sliced", longer.slice(13), 300)
    sliced, whole = (reader_of(tmp_path / name) for name in ("sliced", "longer"))
    found = sliced.read(sliced.schema.fields, RowRange(0, num_rows))
    expected = whole.read(whole.schema.fields, RowRange(13, num_rows + 13))
    for field, array, wanted in zip(whole.schema.fields, found, expected, strict=True):
        assert array.to_pylist() == wanted.to_pylist(), field.name


def numbers(mask: np.ndarray | None) -> dict[str, pa.Array]:
    rng = np.random.default_rng(4)
    n = 256
    small = rng.integers(-100, 100, n)
    if mask is not None:
        small[mask] = 0
    columns = {
        str(kind): pa.array(abs(small) if "u" in str(kind) else small, pa.int64(), mask=mask).cast(kind)
        for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint64())
    }
    columns["date32"] = columns["int32"].cast(pa.date32())
    columns["date64"] = pa.array(small * 86_400_000, pa.int64(), mask=mask).cast(pa.date64())
    zeros = np.where(rng.random(n) < 0.5, 0.0, -0.0)
    floats = {
        "normal": rng.standard_normal(n),
        "some_nan": np.where(rng.random(n) < 0.4, np.nan, rng.standard_normal(n)),
        "nan": np.full(n, np.nan),
        "zeros": zeros,
        "minus_zeros": np.full(n, -0.0),
        "infinite": np.where(rng.random(n) < 0.5, np.inf, -np.inf),
        "plus_infinite": np.full(n, np.inf),
    }
    for name, values in floats.items():
        filled = values if mask is None else np.where(mask, 0.0, values)
        columns[name] = pa.array(filled, mask=mask)
        columns[name + "32"] = pa.array(filled.astype(np.float32), mask=mask)
    flags = rng.random(n) < 0.5
    columns["flags"], columns["true"] = pa.array(flags, mask=mask), pa.array(np.ones(n, bool), mask=mask)
    columns["false"] = pa.array(np.zeros(n, bool), mask=mask)
    null = np.zeros(n, bool) if mask is None else mask
    decimals = [None if gone else Decimal(int(each)) for each, gone in zip(small, null, strict=True)]
    columns["decimal"] = pa.array(decimals, pa.decimal128(38, 5))
    return columns


@pytest.mark.parametrize("nulls", ["none", "some", "blocks", "all"])
def test_bounds_of_numbers(tmp_path: Path, nulls: str) -> None:
    n = 256
    mask = {
        "none": None,
        "some": np.random.default_rng(1).random(n) < 0.3,
        "blocks": (np.arange(n) // 7) % 2 == 0,
        "all": np.ones(n, bool),
    }[nulls]
    assert_same_bytes(tmp_path, pa.table(numbers(mask)), rows_per_group=7)


TEXTS = [
    "",
    "a",
    "x" * 63 + "y",
    "x" * 64,
    "x" * 65,
    "é" * 31 + "ê" * 2,
    "é" * 40,
    "\U0010ffff" * 17,
    "{",
    "zz",
]


def test_bounds_of_texts(tmp_path: Path) -> None:
    """Cut to 64 bytes, with the next larger text above: groups of all pairs of lengths and nulls."""
    texts = [*itertools.chain.from_iterable(itertools.product(TEXTS, [*TEXTS, None]))]
    table = pa.table({str(kind): pa.array(texts, kind) for kind in (pa.string(), pa.large_string())})
    assert_same_bytes(tmp_path, table, rows_per_group=2)


def test_bounds_of_binaries(tmp_path: Path) -> None:
    values = [b"", b"a", b"\xff" * 64, b"\xff" * 65, b"a" + b"\xff" * 70, b"\x00", b"a" * 64, None]
    pairs = [*itertools.chain.from_iterable(itertools.product(values, values))]
    table = pa.table({str(kind): pa.array(pairs, kind) for kind in (pa.binary(), pa.large_binary())})
    assert_same_bytes(tmp_path, table, rows_per_group=2)


def test_an_upper_bound_is_one_although_cutting_changes_the_order(tmp_path: Path) -> None:
    """pylance's is not: it cuts at whole code points first, and looks for the largest then."""
    fits, longer = "x" * 62 + "é", "x" * 62 + "€"
    table = pa.table({"t": [fits, longer]})
    write(tmp_path / "f.lance", table)
    (bound,) = statistics_of(tmp_path / "f.lance", "t").max_values.to_pylist()
    assert bound > longer > fits
    assert len(bound.encode()) <= 64
    lance.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    theirs = lance.dataset(tmp_path / "t")
    assert theirs.count_rows(f"t = '{longer}'") == 0  # the row is there


def test_values_below_nulls_are_zeros(tmp_path: Path) -> None:
    mask = np.array([False, True, False])
    table = pa.table(
        {
            "i": pa.array([1, 77, 3], mask=mask),
            "f": pa.array([1.0, 77.0, 3.0], mask=mask),
            "l": pa.FixedSizeListArray.from_arrays(pa.array(range(6)), 2, mask=pa.array(mask)),
            "t": pa.array([b"a", b"bb", b"c"], mask=mask),
            "d": pa.DictionaryArray.from_arrays(pa.array([1, 1, 0], mask=mask), ["a", "b"]),
        }
    )
    write(tmp_path / "f.lance", table)
    reader = reader_of(tmp_path / "f.lance")
    found = dict(zip(table.column_names, reader.read(reader.schema.fields, np.arange(3)), strict=True))
    assert {name: array.to_pylist()[1] for name, array in found.items()} == {
        "i": 0,
        "f": 0.0,
        "l": [0, 0],
        "t": None,
        "d": "a",
    }
    assert statistics_of(tmp_path / "f.lance", "i").null_counts.tolist() == [1]


@st.composite
def batches(draw: st.DrawFn) -> pa.Table:
    """Columns of different kinds in slices of larger arrays, as one or more batches."""
    n = draw(st.integers(0, 40))
    ints = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1))
    texts = st.one_of(st.none(), st.text(max_size=70))
    kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
        (pa.int32(), ints),
        (pa.bool_(), st.one_of(st.none(), st.booleans())),
        (pa.string(), texts),
        (pa.list_(pa.string()), st.one_of(st.none(), st.lists(texts, max_size=3))),
        (pa.large_list(pa.list_(pa.int32())), st.lists(st.lists(ints, max_size=2), max_size=2)),
        (pa.list_(pa.bool_(), 3), st.one_of(st.none(), st.lists(st.booleans(), min_size=3, max_size=3))),
        (
            pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))]),
            st.one_of(st.none(), st.fixed_dictionaries({"a": ints, "b": st.lists(texts, max_size=2)})),
        ),
    ]
    offset = draw(st.integers(0, n))
    columns = []
    for kind, values in kinds:
        array = pa.array(draw(st.lists(values, min_size=n, max_size=n)), kind)
        columns.append(array.slice(offset))
    table = pa.table(columns, names=[str(number) for number in range(len(kinds))])
    cut = draw(st.integers(0, table.num_rows))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=batches(), rows_per_group=st.integers(1, 12))
def test_columns_of_any_content(tmp_path: Path, table: pa.Table, rows_per_group: int) -> None:
    write(tmp_path / "f.lance", table, rows_per_group)
    reader = reader_of(tmp_path / "f.lance")
    found = reader.read(reader.schema.fields, np.arange(table.num_rows))
    for array, column in zip(found, table.columns, strict=True):
        assert array.to_pylist() == [stored(each, column.type) for each in column.to_pylist()]
    if table.num_rows:
        assert_same_bytes(tmp_path, table, rows_per_group)


def stored(value: Any, kind: pa.DataType) -> Any:
    """Return what 0.1 makes of a value: only texts can be null, and those that are empty are."""
    types = pa.types
    if types.is_string(kind):
        return value or None
    if types.is_struct(kind):
        return {field.name: stored(value and value[field.name], field.type) for field in kind}
    if types.is_fixed_size_list(kind):
        return value or [False] * kind.list_size
    if types.is_list(kind) or types.is_large_list(kind):
        return [stored(each, kind.value_type) for each in value or ()]
    return value or (False if types.is_boolean(kind) else 0)


def test_many_rows_in_small_batches(tmp_path: Path) -> None:
    n = 70_000
    table = pa.table({"i": pa.array(range(n)), "t": [f"value {i % 977}" for i in range(n)]})
    shredded = pa.Table.from_batches(
        [batch for start in range(0, n, 999) for batch in table.slice(start, 999).to_batches()]
    )
    assert write(tmp_path / "a", shredded) == write(tmp_path / "b", table)
    assert before_manifest(tmp_path, write(tmp_path / "c", table)) == before_manifest(
        tmp_path, written_by_pylance(tmp_path / "t", table)
    )
    assert len(statistics_of(tmp_path / "a", "i").min_values) == -(-n // 1024)


def test_a_file_without_rows_and_one_without_statistics(tmp_path: Path) -> None:
    table = pa.table({"i": pa.array([], pa.int64()), "l": pa.array([], pa.list_(pa.int8()))})
    write(tmp_path / "empty", table)
    reader = reader_of(tmp_path / "empty")
    assert reader.num_rows == 0
    assert [len(array) for array in reader.read(reader.schema.fields, np.arange(0))] == [0, 0]
    assert_same_bytes(tmp_path, pa.table({"l": [[1], [2, 3]]}))


def dictionary(values: Sequence[str | None], index_type: pa.DataType | None = None) -> pa.DictionaryArray:
    encoded = pa.array(values, pa.string()).dictionary_encode()
    return encoded.cast(pa.dictionary(index_type or pa.int32(), pa.string()))


def test_dictionaries_of_batches_become_one(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int32(), pa.string())
    struct = pa.struct([("d", kind)])
    parts = [["a", "b"], ["b", "c", None], ["c", "a"]]
    table = pa.Table.from_batches(
        [
            pa.record_batch(
                {
                    "d": dictionary(part),
                    "s": pa.StructArray.from_arrays([dictionary(part)], fields=list(struct)),
                    "l": pa.ListArray.from_arrays(range(len(part) + 1), dictionary(part)),
                }
            ).slice(1)
            for part in parts
        ]
    )
    write(tmp_path / "f", table, rows_per_group=1)
    reader = reader_of(tmp_path / "f")
    flat, structs, lists = reader.read(reader.schema.fields, np.arange(4))
    expected = ["b", "c", "a", "a"]  # null is stored as the first value
    assert flat.to_pylist() == expected
    assert [each["d"] for each in structs.to_pylist()] == expected
    assert [each[0] for each in lists.to_pylist()] == expected


def test_dictionaries_of_batches_that_hold_null(tmp_path: Path) -> None:
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), pa.array(["q", None]))
    chunks = [with_null, dictionary(["z", "q"]), with_null, dictionary(["", "z"])]
    struct = pa.struct([("d", with_null.type)])
    table = pa.table(
        {
            "d": pa.chunked_array(chunks),
            "s": pa.chunked_array(
                [pa.StructArray.from_arrays([each], fields=list(struct)) for each in chunks]
            ),
            "l": pa.chunked_array([pa.ListArray.from_arrays([0, 1, 2], each) for each in chunks]),
        }
    )
    write(tmp_path / "f", table, rows_per_group=3)
    reader = reader_of(tmp_path / "f")
    flat, structs, lists = reader.read(reader.schema.fields, np.arange(8))
    expected = ["q", None, "z", "q", "q", None, None, "z"]  # empty text is read as NULL
    assert flat.to_pylist() == expected
    assert [each["d"] for each in structs.to_pylist()] == expected
    assert [each[0] for each in lists.to_pylist()] == expected


def test_the_sizes_of_pages_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = {f"c{number}": [number] for number in range(200)}
    write(tmp_path / "f", pa.table(columns))
    reader = reader_of(tmp_path / "f")
    calls = []
    sizes = legacy_reader.page_sizes
    monkeypatch.setattr(legacy_reader, "page_sizes", lambda *given: calls.append(1) or sizes(*given))
    assert [reader.page_bytes(field) for field in reader.schema.fields] == [[(0, 8)]] * 200
    assert len(calls) == 1


def test_a_dictionary_that_a_table_has_stays(tmp_path: Path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = schema_from_arrow(pa.schema([("d", kind)]))
    schema = schema.with_dictionaries({0: pa.array(["x", "y", "z"])})
    write(tmp_path / "f", pa.table({"d": dictionary(["z", "x"], pa.int8())}), schema=schema)
    reader = reader_of(tmp_path / "f")
    (found,) = reader.read(reader.schema.fields, np.arange(2))
    assert found.indices.to_pylist() == [2, 0]
    with pytest.raises(InvalidInputError, match=r"'d': value 'q' is not in the dictionary of 3 values"):
        write(tmp_path / "g", pa.table({"d": dictionary(["q"], pa.int8())}), schema=schema)
    assert not (tmp_path / "g").exists()


def test_dictionaries_end_where_their_keys_do(tmp_path: Path) -> None:
    parts = [dictionary([f"{low + i}" for i in range(100)], pa.int8()) for low in (0, 100)]
    table = pa.Table.from_batches([pa.record_batch({"d": part}) for part in parts])
    with pytest.raises(InvalidInputError, match="200 values, but the keys go up to 127"):
        write(tmp_path / "f", table)
    with pytest.raises(InvalidInputError, match="nulls need a dictionary with at least one value"):
        write(tmp_path / "f", pa.table({"d": dictionary([None])}))
    assert not (tmp_path / "f").exists()


def test_dictionaries_are_not_made_for_a_file_alone(tmp_path: Path) -> None:
    schema = schema_from_arrow(pa.schema([("d", pa.dictionary(pa.int8(), pa.string()))]))
    with pytest.raises(InvalidInputError, match="cannot get new ones later"):
        LegacyFileWriter(ByteSink(open_location(tmp_path / "f")), schema)
    assert not (tmp_path / "f").exists()


def test_a_dictionary_without_keys(tmp_path: Path) -> None:
    kind = pa.list_(pa.dictionary(pa.int8(), pa.string()))
    table = pa.table({"l": pa.array([None, None], kind)})
    lance_df.write_dataset(table, tmp_path / "t", data_storage_version="legacy")
    lance_df.write_dataset(table, tmp_path / "t", mode="append")
    assert lance.dataset(tmp_path / "t").to_table()["l"].to_pylist() == [[]] * 4


def test_nulls_where_the_schema_allows_none(tmp_path: Path) -> None:
    flat = pa.table({"a": pa.array([1, None])}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    strict = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    nested = pa.table({"s": pa.array([{"x": 1}, {"x": None}], strict)})
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["x", None]))
    coded = pa.table([words], schema=pa.schema([pa.field("d", words.type, nullable=False)]))
    for table, column in ((flat, "a"), (nested, r"s\.x"), (coded, "d")):
        with pytest.raises(InvalidInputError, match=rf"column '{column}' is declared not null"):
            write(tmp_path / "f", table)
    excused = pa.table({"s": pa.array([{"x": 1}, None], strict)})
    write(tmp_path / "f", excused)
    reader = reader_of(tmp_path / "f")
    assert reader.read(reader.schema.fields, np.arange(2))[0].to_pylist() == [{"x": 1}, {"x": 0}]


def test_arrays_that_do_not_fit_together(tmp_path: Path) -> None:
    schema = schema_from_arrow(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    writer = LegacyFileWriter(ByteSink(open_location(tmp_path / "f")), schema)
    with pytest.raises(InvalidInputError, match=r"got the lengths \[1, 2\]"):
        writer.write_batch([pa.array([1]), pa.array([1, 2])])
    with pytest.raises(UnsupportedFeatureError, match="cannot store global buffers"):
        writer.add_global_buffer(b"x")
    writer.abort()
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        LegacyFileWriter(ByteSink(open_location(tmp_path / "file" / "f")), schema_from_arrow(pa.schema([])))
