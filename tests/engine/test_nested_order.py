"""Comparisons of lists and structs, in every way that a filter reaches a scan, as DataFusion answers them."""

from __future__ import annotations

import functools
import itertools
import math

import datafusion
import pyarrow as pa
import pytest
from query_results import assert_same_result

import lance_df
from lance_df.engine.pruning.nested_order import compared
from lance_df.errors import UnsupportedFeatureError

pytestmark = pytest.mark.engine

_LISTS = [
    [1, 2, 3],
    [1, 2],
    [1],
    [],
    None,
    [None],
    [None, 1],
    [1, None],
    [1, None, 3],
    [2],
    [-5, 9],
    [1, 2, 4],
]
_STRUCTS = [
    {"a": 1, "b": "x"},
    {"a": 1, "b": None},
    {"a": None, "b": "x"},
    {"a": None, "b": None},
    None,
    {"a": 2, "b": ""},
    {"a": 1, "b": "é"},
]
_FLOATS = [[0.0], [-0.0], [math.nan], [-math.nan], [math.inf], [None], [1.5, math.nan], None, []]
_POINT = pa.struct([("a", pa.int64()), ("b", pa.string())])


def _pairs(values):
    both = list(itertools.product(values, values))
    return [one for one, _ in both], [other for _, other in both]


def _table():
    size = len(_LISTS) ** 2

    def column(values, data_type):
        return pa.array(list(itertools.islice(itertools.cycle(values), size)), data_type)

    columns = {"id": pa.array(range(size), pa.int64())}
    for name, values, data_type in (
        ("l", _LISTS, pa.list_(pa.int64())),
        ("f", _FLOATS, pa.list_(pa.float64())),
        ("w", [["a", "b"], ["a"], None, [""], ["é", None], [None]], pa.large_list(pa.string())),
        ("st", _STRUCTS, _POINT),
        ("sl", [[each] for each in _STRUCTS] + [_STRUCTS, None, []], pa.list_(_POINT)),
        ("ll", [[each] for each in _LISTS] + [[[1], [2]], [], None], pa.list_(pa.list_(pa.int64()))),
        ("x", [[1, 2], [1, None], None, [None, None], [2, -1]], pa.list_(pa.int32(), 2)),
        (
            "d",
            [{"p": [1]}, {"p": []}, {"p": None}, None, {"p": [None]}],
            pa.struct([("p", pa.list_(pa.int64()))]),
        ),
    ):
        one, other = _pairs(values)
        columns[name], columns[f"{name}2"] = column(one, data_type), column(other, data_type)
    return pa.table(columns)


@pytest.fixture(scope="module")
def table():
    return _table()


@pytest.fixture(scope="module")
def contexts(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("nested")
    lance_df.write_dataset(table, folder / "t.lance", max_rows_per_file=50)
    namespace = lance_df.PartitionedNamespace.create(
        folder / "n", table.schema, [lance_df.partition.bucket("id", 3)]
    )
    namespace.append(table)
    plain, memory = datafusion.SessionContext(), datafusion.SessionContext()
    for name in ("t", "n"):
        lance_df.register(plain, name, folder / ("t.lance" if name == "t" else "n"))
        memory.from_arrow(table, name)
    return {"session": lance_df.connect(folder), "plain": plain, "memory": memory, "folder": folder}


_COLUMNS = ["l", "f", "w", "st", "sl", "ll", "x", "d"]
_CONDITIONS = [
    *(f"{name} {sign} {name}2" for name in _COLUMNS for sign in ("=", "<>", "<", "<=", ">", ">=")),
    "l = [1, 2, 3]",
    "[1, 2] <= l",
    "l < [1, 2, 3] OR id = 5",
    "l IN ([1, 2, 3], [1])",
    "l NOT IN ([1, 2, 3], [1])",
    "l IN ([1], [2], [3], [4], [1, 2])",
    "l BETWEEN [1] AND [1, 2]",
    "l NOT BETWEEN [1] AND [1, 2]",
    "(l = l2) = (id > 70)",
    "(l < l2) IS NULL",
    "NOT (l = l2 AND x = x2)",
    "l = [1] AND id > 20 AND st = named_struct('a', 1, 'b', 'x')",
    "l IS NOT DISTINCT FROM l2",
    "st = named_struct('a', 1, 'b', 'x')",
    "st > named_struct('a', 1, 'b', 'x')",
    "st['a'] = 1 AND st < st2",
    "w = ['a', 'b'] OR f = [0.0]",
]


@pytest.mark.parametrize("condition", _CONDITIONS)
def test_answers_are_those_of_datafusion(contexts, condition):
    for name in ("t", "n"):
        query = f"SELECT id FROM {name} WHERE {condition} ORDER BY id"
        expected = contexts["memory"].sql(query)
        assert_same_result(contexts["session"].sql(query), expected)
        assert_same_result(contexts["plain"].sql(query), expected)
        for kind in ("session", "plain"):
            frame = contexts[kind].table(name).filter(condition).select("id").sort("id")
            assert_same_result(frame, expected)
    dataset = lance_df.dataset(contexts["folder"] / "t.lance")
    found = dataset.to_table(columns=["id"], filter=condition)
    assert found["id"].to_pylist() == expected.to_pydict()["id"]
    assert dataset.count_rows(condition) == expected.count()


def _order(one, other):
    """Compare two values of Python as DataFusion does those inside of others."""
    if one is None or other is None:
        return (one is not None) - (other is not None)
    if isinstance(one, dict):
        one, other = list(one.values()), list(other.values())
        return next((sign for pair in zip(one, other, strict=True) if (sign := _order(*pair))), 0)
    if isinstance(one, list | tuple):
        signs = (sign for pair in zip(one, other, strict=False) if (sign := _order(*pair)))
        return next(signs, (len(one) > len(other)) - (len(one) < len(other)))
    return (one > other) - (one < other)


@pytest.mark.parametrize(
    ("values", "data_type"),
    [
        (_LISTS, pa.list_(pa.int64())),
        (_LISTS, pa.large_list(pa.int8())),
        (_LISTS, pa.list_view(pa.int64())),
        ([[1, 2], None, [None, 1], [1, None]], pa.list_(pa.int64(), 2)),
        (_STRUCTS, _POINT),
        ([[("k", 1)], [("k", None)], [], None, [("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64())),
        ([[each] for each in _STRUCTS], pa.list_(_POINT)),
        ([["a", None], ["b"], [], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
        ([["a", None], ["b"], [], None], pa.list_(pa.string_view())),
        ([[b"a"], [b""], None], pa.list_(pa.binary())),
        ([[True], [False], [None]], pa.list_(pa.bool_())),
    ],
)
def test_slices_of_all_nested_types(values, data_type):
    one, other = _pairs(values)
    left, right = pa.array([values[0], *one], data_type), pa.array([*other, values[0]], data_type)
    wanted = [_order(*pair) for pair in zip(one, other, strict=True)]
    assert compared(left.slice(1), right.slice(0, len(other))).tolist() == wanted
    assert compared(left[1:4], right[:3]).tolist() == wanted[:3]
    assert compared(left[:0], right[:0]).tolist() == []
    values.sort(key=functools.cmp_to_key(_order))
    assert set(compared(pa.array(values[1:], data_type), pa.array(values[:-1], data_type))) <= {0, 1}


def test_long_lists():
    rows = [list(range(20_000)), [*range(19_999), -1], list(range(20_000))]
    left, right = pa.array(rows), pa.array([rows[0]] * 3)
    assert compared(left, right).tolist() == [0, -1, 0]


def test_what_has_no_order_is_refused():
    union = pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])])
    values = pa.ListArray.from_arrays([0, 1], union)
    with pytest.raises(UnsupportedFeatureError, match="cannot be compared"):
        compared(values, values)
