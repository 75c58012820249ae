"""Filters that pyarrow expressions can say, against pyarrow over the same rows, and pylance where it can."""

from __future__ import annotations

import decimal
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df

NAN = float("nan")
ROWS = pa.table(
    {
        "i": [1, 2, 3, None, 50, -7],
        "f": [1.5, NAN, None, 0.0, -0.0, 9.0],
        "s": ["abc", "b", "cab", None, "", "xyz"],
        "b": [True, False, None, True, False, True],
        "l": [[1], [], None, [1, 2], [3], [4]],
        "st": [{"a": number} for number in range(6)],
    }
)
N, F, S, B = (pc.field(name) for name in "ifsb")
BY_BOTH = [
    N + 3 >= 5,
    N * 2 - 1 < 10,
    pc.negate(N) > 0,
    pc.starts_with(S, "a"),
    pc.ends_with(S, "b"),
    pc.match_substring(S, "b"),
    pc.coalesce(B, False),
    pc.if_else(B, N, 0) > 0,
    pc.is_nan(F),
    pc.bit_wise_and(N, 1) == 1,
    (N + 1).isin([2, 3]),
    ~(N + 1 > 3),
    (N + 1 > 3) | (S == "b"),
]
BY_PYARROW = [
    N / 2 > 0.9,
    pc.match_substring(S, "B", ignore_case=True),
    pc.match_substring_regex(S, "^a"),
    N.is_null(nan_is_null=True),
    F.is_null(nan_is_null=True),
    pc.shift_left(N, 1) > 4,
    S.cast(pa.binary()) == b"b",
    N.cast(pa.float64()) > 1.5,
    pc.xor(B, True),
    pc.list_value_length(pc.field("l")) > 1,
    pc.field("st", "a") + 1 > 3,
    pc.case_when(pc.make_struct(B), N, 5) > 4,
]


# columns by position: of the table, of a struct, beside names, and texts that look like one
BY_POSITION = [
    pc.field(0) > 1,
    pc.field(0).isin([2, 50, None]),
    pc.field(5, 0) + 1 > 3,
    pc.field(0) > pc.field(5, 0),
    (pc.field(0) > 1) & (S == "b"),
    (pc.field(2) == "FieldPath(0)") | pc.field(3),
    pc.starts_with(pc.field(2), "a"),
    pc.field(4).is_null(),
    pc.list_value_length(pc.field(4)) > 1,
    ~pc.field(3),
]


@pytest.fixture(name="uri", scope="module")
def _uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = tmp_path_factory.mktemp("filters")
    return lance_df.write_dataset(ROWS, folder / "t", max_rows_per_file=2).uri


@pytest.mark.parametrize("expression", [*BY_BOTH, *BY_PYARROW, *BY_POSITION], ids=str)
def test_rows_are_those_of_pyarrow(uri: str, expression: pc.Expression) -> None:
    dataset = lance_df.dataset(uri)
    expected = ROWS.filter(expression)
    assert (
        dataset.to_table(["i", "s"], filter=expression).to_pylist() == expected.select(["i", "s"]).to_pylist()
    )
    assert dataset.count_rows(expression) == expected.num_rows
    assert dataset.to_table({"x": "i"}, filter=expression).num_rows == expected.num_rows
    matching = {each.fragment_id for each in dataset.get_fragments() if each.count_rows(expression)}
    assert matching <= {each.fragment_id for each in dataset.get_fragments(expression)}


@pytest.mark.parametrize("expression", BY_BOTH, ids=str)
def test_rows_are_those_of_pylance(uri: str, expression: pc.Expression) -> None:
    assert (
        lance_df.dataset(uri).count_rows(expression)
        == lance.dataset(uri).to_table(filter=expression).num_rows
    )


def test_deleted_and_updated_rows(tmp_path: Path) -> None:
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t")
    assert dataset.delete(pc.starts_with(S, "a")) == {"num_deleted_rows": 1}
    assert dataset.update({"i": "0"}, where=pc.is_nan(F)) == {"num_rows_updated": 1}


@pytest.fixture(scope="module")
def many_rows() -> pa.Table:
    """Rows of which results have many batches."""
    return pa.concat_tables([ROWS.append_column("at", pa.array(range(6)))] * 20_000).combine_chunks()


@pytest.mark.parametrize("expression", BY_POSITION, ids=str)
def test_positions_count_the_columns_of_the_table(
    tmp_path: Path, many_rows: pa.Table, expression: pc.Expression
) -> None:
    rows = many_rows
    expected = rows.filter(expression)
    dataset = lance_df.write_dataset(rows, tmp_path / "t", max_rows_per_file=50_000)
    assert dataset.scanner(["at"], filter=expression).to_table() == expected.select(["at"])
    assert dataset.filter(expression).to_table(["at"], filter="at <> 2") == expected.select(["at"]).filter(
        pc.field("at") != 2
    )
    assert dataset.to_table(["at"], filter=expression, offset=1, limit=2) == expected.select(["at"]).slice(
        1, 2
    )
    with_ids = dataset.to_table(["at"], filter=expression, with_row_id=True)
    assert with_ids.select(["at"]) == expected.select(["at"])
    assert dataset.update({"at": "-1"}, where=expression) == {"num_rows_updated": expected.num_rows}
    assert dataset.count_rows("at = -1") == dataset.count_rows(expression) == expected.num_rows
    assert dataset.delete(expression) == {"num_deleted_rows": expected.num_rows}
    assert dataset.count_rows() == rows.num_rows - expected.num_rows


@pytest.mark.parametrize("expression", [S == "b", *BY_BOTH, *BY_POSITION], ids=str)
def test_filters_of_namespaces(tmp_path: Path, expression: pc.Expression) -> None:
    spec = [lance_df.partition.identity("s")]
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, spec)
    namespace.append(ROWS)
    order = [("s", "ascending")]
    expected = ROWS.filter(expression).sort_by(order)
    assert namespace.to_table(["s"], filter=expression).sort_by(order) == expected.select(["s"])
    assert namespace.count_rows(expression) == expected.num_rows
    assert (
        sum(each.count_rows(expression) for each in namespace.get_fragments(expression)) == expected.num_rows
    )
    assert namespace.update({"f": "-2.5"}, where=expression) == {"num_rows_updated": expected.num_rows}
    assert namespace.count_rows("f = -2.5") == expected.num_rows
    where = pc.field(1) == -2.5
    assert namespace.delete(where) == {"num_deleted_rows": expected.num_rows}
    assert lance_df.PartitionedNamespace.open(tmp_path / "n").count_rows() == 6 - expected.num_rows


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (pc.field(6) > 1, lance_df.ColumnNotFoundError),  # where system columns would be
        (pc.field(5, 1) > 1, lance_df.ColumnNotFoundError),
        (pc.field(2) > 1, lance_df.InvalidInputError),
        (pc.field(0) + 1, lance_df.InvalidInputError),
        (pc.divide(pc.field(0), 0) > 1, lance_df.InvalidInputError),
    ],
)
def test_positions_that_are_refused(
    tmp_path: Path, expression: pc.Expression, error: type[Exception]
) -> None:
    dataset = lance_df.write_dataset(ROWS, tmp_path / "t")
    spec = [lance_df.partition.identity("s")]
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", ROWS.schema, spec)
    namespace.append(ROWS)
    for table in (dataset, namespace):
        for read in (table.to_table, table.count_rows):
            with pytest.raises(error):
                read(filter=expression)
        with pytest.raises(error):
            table.delete(expression)


@pytest.mark.parametrize(
    ("expression", "message"), [(N + 1, "type is int64"), (pc.divide(N, 0) > 1, "divide by zero")]
)
def test_what_is_no_condition_is_refused(uri: str, expression: pc.Expression, message: str) -> None:
    with pytest.raises(lance_df.InvalidInputError, match=message):
        lance_df.dataset(uri).to_table(filter=expression)


@pytest.mark.parametrize(
    "condition",
    [
        "regexp_match(s, 'c.*')",
        "NOT regexp_match(s, 'c.*')",
        "(regexp_match(s, 'c.*')) AND i > 1",
        "i BETWEEN 1 AND 2 OR regexp_match(s, '^x')",
        "array_length(regexp_match(s, 'c')) = 1",
        "cast('2021-01-01 00:00:00' as datetime) > cast('2020-01-01' as datetime(6))",
    ],
)
def test_sql_conditions(uri: str, condition: str) -> None:
    if "array_length" in condition:
        assert lance_df.dataset(uri).count_rows(condition) == 2
        return
    assert lance_df.dataset(uri).count_rows(condition) == lance.dataset(uri).count_rows(condition)


def test_the_operator_that_sql_has_not(uri: str) -> None:
    with pytest.raises(lance_df.InvalidInputError, match="use AND"):
        lance_df.dataset(uri).to_table(filter="i > 1 && b")


def _decimals(*texts: str | None) -> pa.Array:
    return pa.array([None if text is None else decimal.Decimal(text) for text in texts])


# a type, its values, items of another type, and the places of the values that are among these
LISTED = [
    (pa.int8(), [44, 5, 0, -1, None], pa.array([300, 5, 255]), [1]),
    (pa.int8(), [44, 5, 0, -1, None], pa.array([5.5, 44.0, -0.0, NAN]), [0, 2]),
    (pa.int8(), [44, 5, 0, -1, None], _decimals("5.5", "44.0"), [0]),
    (pa.int64(), [2**53, 2**63 - 1, -1, 5], pa.array([2.0**63, 2.0**53]), [0]),
    (pa.int64(), [2**53, 2**63 - 1, -1, 5], pa.array([2**64 - 1, 5], pa.uint64()), [3]),
    (pa.int64(), [-1, 5], pa.array([2**64 - 1], pa.uint64()), []),
    (pa.uint64(), [2**64 - 1, 2**63, 1, 5], pa.array([-1, 5]), [3]),
    (pa.float16(), [0.0, -0.0, NAN, 1.5, None], pa.array([0.0, 1e30, None]), [0, 1]),
    (pa.float16(), [0.0, -0.0, NAN, 1.5, None], pa.array([NAN, 1.5, 0.1, 2.0, 3.0]), [2, 3]),
    (pa.float16(), [0.0, -0.0, NAN, 1.5, None], _decimals("1.5", "0.1"), [3]),
    (pa.float32(), [0.0, -0.0, NAN, 1.5, None], pa.array([-0.0, NAN], pa.float16()), [0, 1, 2]),
    (pa.float32(), [0.1, -0.0, 2.0**24, 1.5, None], pa.array([0.1, 2**24 + 1, 1.5]), [3]),
    (pa.float32(), [0.1, -0.0, 2.0**24, 1.5, None], pa.array([2**24 + 1, 0]), [1]),
    (pa.float64(), [0.1, -0.0, 2.0**53, 1.5, None], pa.array([2**53 + 1, 0]), [1]),
    (pa.float64(), [0.1, -0.0, 2.0**53, 1.5, None], pa.array([1.5, -0.0, NAN], pa.float16()), [1, 3]),
    (pa.decimal128(10, 0), ["0", "1", None, "5"], _decimals("0.1", "1.00", "1E+30"), [1]),
    (pa.decimal128(10, 1), ["0", "1", None, "0.5"], pa.array([0.5, 1e30, NAN]), [3]),
    (pa.decimal128(10, 1), ["0", "1", None, "0.5"], pa.array([1, 2**62]), [1]),
    (pa.decimal256(40, 1), ["0", "1", None, "0.5"], _decimals("0.55", "0.5"), [3]),
    (pa.decimal128(5, -2), ["100", "0", None, "-900"], _decimals("-900", "100", "50"), [0, 3]),
    (pa.decimal256(9, -2), ["100", "0", None, "-900"], pa.array([100, 50]), [0]),
    (pa.timestamp("s"), [0, 1, None, -1], pa.array([1, 10**9], pa.timestamp("ns")), [1]),
    (pa.timestamp("ns"), [0, 1, None, -1], pa.array([2**60, 0], pa.timestamp("s")), [0]),
    (pa.timestamp("us"), [0, 86_400_000_000, None, -1], pa.array([1, 2**31 - 1], pa.date32()), [1]),
    (pa.timestamp("ms", "UTC"), [0, 1, None], pa.array([1, 10**6], pa.timestamp("ns", "Asia/Tokyo")), [1]),
    (pa.date32(), [0, 1, None], pa.array([1, 86_400_000], pa.timestamp("ms")), [1]),
    (pa.date32(), [0, 1, None], pa.array([86_400_000], pa.date64()), [1]),
    (pa.time32("s"), [0, 1, None], pa.array([1, 10**9], pa.time64("ns")), [1]),
    (pa.time32("ms"), [0, 1, None], pa.array([1, 10**3], pa.time64("us")), [1]),
    (pa.time64("ns"), [0, 1, None], pa.array([0, 1], pa.time32("s")), [0]),
    (pa.duration("s"), [0, 1, None], pa.array([1, 10**3], pa.duration("ms")), [1]),
    (pa.duration("ns"), [0, 1, None], pa.array([2**62, 0], pa.duration("s")), [0]),
    (pa.string(), ["a", "", None], pa.array(["a", None], pa.string_view()), [0]),
    (pa.large_string(), ["a", "", None], pa.array(["a"]).dictionary_encode(), [0]),
    (pa.string_view(), ["a", "", None], pa.array(["a", "b"]), [0]),
    (pa.binary(), [b"abc", b"", None], pa.array([b"abc"], pa.binary(3)), [0]),
    (pa.binary(3), [b"abc", b"xyz", None], pa.array([b"abcd", b"xyz", None]), [1]),
    (pa.binary(3), [b"abc", b"xyz", None], pa.array([b"abcd"], pa.binary(4)), []),
    (pa.binary(3), [b"abc", b"xyz", None], pa.array([b"xyz"], pa.binary_view()), [1]),
    (pa.bool_(), [True, False, None], pa.array([5, 0]), [1]),
    (pa.int32(), [1, 2, None], pa.nulls(2), []),
]


@pytest.mark.parametrize(
    ("kind", "values", "items", "places"),
    LISTED,
    ids=[f"{at}-{kind}-{items.type}" for at, (kind, _, items, _) in enumerate(LISTED)],
)
def test_items_are_those_that_the_column_can_hold(
    tmp_path: Path, kind: pa.DataType, values: list[object], items: pa.Array, places: list[int]
) -> None:
    if pa.types.is_decimal(kind):
        values = [None if value is None else decimal.Decimal(str(value)) for value in values]
    rows = pa.table({"c": pa.array(values, kind), "id": range(len(values)), "z": [-1] * len(values)})
    others = [at for at in range(len(values)) if at not in places]
    has_null = items.null_count > 0
    unlisted = [] if has_null else [at for at in others if values[at] is not None]
    for name, beside in (("one", pc.scalar(True)), ("two", pc.field("id") > pc.field("z"))):
        listed = pc.field("c").isin(items) & beside
        dataset = lance_df.write_dataset(rows, tmp_path / name)
        assert dataset.to_table(["id"], filter=listed)["id"].to_pylist() == places
        assert dataset.to_table(["id"], filter=~pc.field("c").isin(items) & beside)["id"].to_pylist() == (
            unlisted
        )
        assert dataset.count_rows(listed) == len(places)
        assert dataset.update({"z": "-2"}, where=listed) == {"num_rows_updated": len(places)}
        assert dataset.to_table(filter="z = -2")["id"].to_pylist() == places
        assert dataset.delete(listed) == {"num_deleted_rows": len(places)}
        assert sorted(dataset.to_table()["id"].to_pylist()) == others


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float64(), pa.string(), pa.decimal128(9, 2), pa.null()], ids=str
)
def test_no_value_is_in_an_empty_list(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array([1, None, 2]).cast(pa.string() if kind == pa.string() else pa.float64())
    rows = pa.table({"c": column if pa.types.is_null(kind) else column.cast(kind), "z": [1, 2, 3]})
    for name, beside in (("one", pc.scalar(True)), ("two", pc.field("z") > 1)):
        expression = ~pc.field("c").isin(pa.array([], kind)) & beside
        dataset = lance_df.write_dataset(rows, tmp_path / name)
        wanted = lance.dataset(str(tmp_path / name)).to_table(filter=expression)
        assert dataset.to_table(filter=expression).equals(wanted)
        assert dataset.count_rows(expression) == wanted.num_rows
        assert dataset.count_rows(pc.field("c").isin(pa.array([], kind)).is_null()) == 0
        assert dataset.delete(expression) == {"num_deleted_rows": wanted.num_rows}


@pytest.mark.parametrize(
    ("name", "items"),
    [
        ("l", pa.array([["a"], None], pa.list_(pa.string_view()))),
        ("l", pa.array([[1], None])),
        ("i", pa.array([[1], None])),
        ("i", pa.array(["x"])),
        ("b", pa.array([1], pa.timestamp("s"))),
        ("st", pa.array([{"a": 1}])),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_items_that_do_not_compare_are_refused(uri: str, name: str, items: pa.Array) -> None:
    for beside in (pc.scalar(True), N > F):
        with pytest.raises(lance_df.LanceError):
            lance_df.dataset(uri).to_table(filter=pc.field(name).isin(items) & beside)


def test_decimals_of_negative_scale_compare(tmp_path: Path) -> None:
    kind = pa.decimal128(10, -2)
    hundreds = _decimals("100", "-900", None, "500")
    rows = pa.table({"id": range(4), "c": hundreds.cast(kind), "d": _decimals("100", "0.5", "1", "500.5")})
    dataset = lance_df.write_dataset(rows, tmp_path / "t", statistics=True, max_rows_per_file=2)
    column, other = pc.field("c"), pc.field("d")
    for condition, found in [
        (column == pa.scalar(decimal.Decimal(-900), kind), [1]),
        (column < decimal.Decimal(200), [0, 1]),
        (column >= 100, [0, 3]),
        (column == decimal.Decimal("0.5"), []),
        (column != other, [1, 3]),
        (column <= column, [0, 1, 3]),
        (column > pc.field("id"), [0, 3]),
    ]:
        assert dataset.to_table(["id"], filter=condition)["id"].to_pylist() == found
        beside = condition & (pc.field("id") >= pc.field("id"))
        assert dataset.to_table(["id"], filter=beside)["id"].to_pylist() == found
    merge = dataset.merge_insert("c").when_matched_update_all().when_not_matched_insert_all()
    changes = {"num_inserted_rows": 1, "num_updated_rows": 2, "num_deleted_rows": 0}
    keys = _decimals("500", "-900", "300").cast(kind)
    assert merge.execute(rows.slice(0, 3).set_column(1, "c", keys)) == changes


@pytest.mark.parametrize(
    ("kind", "moment"),
    [(pa.timestamp("s"), 2**60), (pa.duration("s"), 2**62), (pa.timestamp("ms", "Europe/Berlin"), -(2**62))],
    ids=str,
)
def test_literals_beyond_the_calendar(tmp_path: Path, kind: pa.DataType, moment: int) -> None:
    nanoseconds = (
        pa.duration("ns") if pa.types.is_duration(kind) else pa.timestamp("ns", getattr(kind, "tz", None))
    )
    rows = pa.table({"t": pa.array([0, moment, None], kind), "n": pa.array([0, 1, 2], nanoseconds)})
    dataset = lance_df.write_dataset(rows, tmp_path / "t")
    literal = pa.array([moment], kind)[0]
    assert dataset.count_rows(pc.field("t") == literal) == 1
    with pytest.raises(lance_df.LanceError):
        dataset.count_rows(pc.field("n") < literal)
