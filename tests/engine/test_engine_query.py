"""Scans with SQL expressions, against what pylance answers."""

import lance
import pyarrow as pa
import pytest

from lance_df.engine.query import scan_with_sql
from lance_df.errors import ColumnNotFoundError, CorruptDataError, InvalidInputError, LanceError
from lance_df.table.open import open_table


@pytest.fixture(scope="module")
def uri(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("query") / "t.lance")
    table = pa.table(
        {
            "a": pa.array([1, 2, 3, None, 5, 6, 7], pa.int64()),
            "B": ["x", "y", "z", None, "", "xy", "it's"],
            "f": [1.5, float("nan"), -0.0, None, 2.0, float("inf"), 0.0],
            "my col": [1, 2, 3, 4, 5, 6, 7],
            "st": pa.array([{"x": i, "Y": "pq"[i % 2]} if i % 3 else None for i in range(7)]),
            "select": [7, 8, 9, 1, 2, 3, 4],
        }
    )
    lance.write_dataset(table, path, max_rows_per_file=3)
    lance.dataset(path).delete("`my col` = 5")
    return path


SAME_AS_PYLANCE = [
    "A=1", "B='x'", "b='x'", "\"B\"='x'", "`B`='x'", "`my col`=2", "st.x=1", "st.Y='p'", "st['x']=1",
    "st['Y']='p'",
    "`st`.`Y`='p'", "select=7", "`select`=7", "_rowid=1", "_rowaddr=1", "upper(B)='X'", "a in (1,2)",
    "B like 'x%'",
    "a between 1 and 2", "cast(a as string)='1'", "true", "date '2020-01-01' > date '2019-01-01'", "NOT a=1",
    "a is null",
    "a % 2 = 1", "B=\"x\"", "a != 1", "B = 'it''s'", "st is null", "f > 1", "f <> 1.5",
    "a not in (1, 2, 3, 4)",
    "a not in (1, 2)", "not (B like 'x%')", "a = 1 -- comment", "f = 0.0", "(a = 1) is null",
    "a > 1 and (b > 'x' or b = '')",
    "B < 'y' and a < 100", "st.x > 1 or a = 1",
]  # fmt: skip


@pytest.mark.parametrize("condition", SAME_AS_PYLANCE)
def test_filters(uri, condition):
    expected = lance.dataset(uri).to_table(columns=["my col"], filter=condition)
    assert scan_with_sql(open_table(uri), columns=["my col"], filter=condition).read_all().equals(expected)


@pytest.mark.parametrize(
    "condition", ["null and a = 1", "a = 1 or null and b = 'x'", "a = '1'", "murmur3(b) <> 0 and a < 3"]
)
def test_filters_that_pylance_refuses(uri, condition):
    found = scan_with_sql(open_table(uri), columns=["a"], filter=condition).read_all()
    assert found.num_rows <= 2


COLUMNS = [
    None, ["a", "B"], ["B", "a"], ["st.x"], ["st.Y", "a"], ["st"], ["_rowid"], ["_rowid", "a"], ["_rowaddr"],
    ["my col"],
    {"z": "a+1", "u": "upper(B)"}, {"z": "B"}, {"z": "b"}, {"z": "st.Y"}, {"z": "`my col`"}, {"q": "_rowid"},
    {"Z": "a*2"},
    {"B": "a", "a": "B"}, {"lower": "lower(B)", "len": "length(B)"},
]  # fmt: skip


@pytest.mark.parametrize("columns", COLUMNS, ids=str)
@pytest.mark.parametrize(
    "extra",
    [{}, {"with_row_id": True}, {"with_row_address": True}, {"with_row_id": True, "with_row_address": True}],
)
@pytest.mark.parametrize("bounds", [{}, {"limit": 2, "offset": 1}, {"filter": "a > 1"}])
def test_columns(uri, columns, extra, bounds):
    expected = lance.dataset(uri).scanner(columns=columns, **extra, **bounds).to_table()
    found = scan_with_sql(open_table(uri), columns=columns, **extra, **bounds).read_all()
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert found.to_pylist() == expected.to_pylist() or "nan" in str(found.to_pylist())


def test_no_columns(uri):
    found = scan_with_sql(open_table(uri), columns=[], filter="a > 1").read_all()
    assert (found.num_rows, found.num_columns) == (4, 0)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": "nope = 1"},
        {"filter": "`b` = 'x'"},
        {"filter": "nope.x = 1"},
        {"columns": ["nope"]},
        {"columns": ["A"]},
        {"columns": ["st.nope"]},
        {"columns": ["a+1"]},
        {"columns": {"z": "nope"}},
    ],
    ids=str,
)
def test_unknown_columns(uri, arguments):
    with pytest.raises(ColumnNotFoundError):
        scan_with_sql(open_table(uri), **arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {"filter": "a ="},
        {"filter": "a = 1 and"},
        {"filter": "a + 1"},
        {"filter": "B"},
        {"filter": "count(*) > 1"},
        {"filter": "a = 1; drop"},
        {"filter": "a = 1 limit 1"},
        {"filter": "st.y = 'p'"},
        {"filter": ""},
        {"filter": "a = 1) or (true"},
        {"filter": "nothing_such(a) = 1"},
        {"columns": {"z": "count(*)"}},
        {"columns": {"z": "row_number() over ()"}},
        {"columns": {"z": "max(a)"}},
        {"columns": {"z": "a AS b"}},
        {"columns": ["a", "a"]},
        {"limit": -1},
        {"offset": -1},
        {"batch_size": 0},
    ],
    ids=str,
)
def test_bad_requests(uri, arguments):
    with pytest.raises(InvalidInputError):
        scan_with_sql(open_table(uri), **arguments)


def test_batches_are_no_larger_than_asked(uri):
    batches = list(scan_with_sql(open_table(uri), batch_size=2, filter="`my col` > 0"))
    assert max(batch.num_rows for batch in batches) <= 2


def test_fragments(uri):
    found = scan_with_sql(open_table(uri), columns=["my col"], filter="true", fragment_ids=(1,)).read_all()
    assert found.to_pydict() == {"my col": [4, 6]}


def test_large_results_keep_the_order(tmp_path):
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(200_000)}), path, max_rows_per_file=30_000)
    found = scan_with_sql(open_table(path), filter="a % 3 = 0").read_all()["a"].to_pylist()
    assert found == list(range(0, 200_000, 3))
    found = scan_with_sql(open_table(path), limit=70_000, offset=50_000).read_all()["a"].to_pylist()
    assert found == list(range(50_000, 120_000))


def test_an_abandoned_reader(tmp_path):
    path = str(tmp_path / "t.lance")
    lance.write_dataset(pa.table({"a": range(100_000)}), path)
    reader = scan_with_sql(open_table(path), filter="a >= 0")
    assert reader.read_next_batch().num_rows > 0
    del reader


def test_damage_is_a_lance_error(tmp_path):
    path = tmp_path / "t.lance"
    lance.write_dataset(pa.table({"a": range(1000)}), str(path))
    (data,) = (path / "data").iterdir()
    data.write_bytes(data.read_bytes()[:200])
    with pytest.raises(LanceError) as caught:
        scan_with_sql(open_table(path), filter="a > 5").read_all()
    assert isinstance(caught.value, CorruptDataError)
    assert data.name in str(caught.value)
