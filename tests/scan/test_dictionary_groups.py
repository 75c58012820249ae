"""Equal rows of a window as one, with their number."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.expr.nodes import Column, Comparison, Operator
from lance_df.scan.dictionary_groups import grouped
from lance_df.scan.request import AggregateCall, AggregateFunction, PartialAggregate, ScanRequest
from lance_df.table.open import open_table
from lance_df.table.scan.plan import plan_scan

ROWS = 6000


def dictionary(indices, values, index_type):
    return pa.DictionaryArray.from_arrays(pa.array(indices, index_type), pa.array(values))


@given(
    st.lists(st.tuples(st.integers(1, 300), st.sampled_from([0.0, 0.3, 1.0])), min_size=1, max_size=3),
    st.sampled_from([pa.uint16(), pa.int32(), pa.uint32()]),
    st.integers(0, 5),
)
@settings(deadline=None, max_examples=40)
def test_random_dictionaries(columns, index_type, offset):
    choose = np.random.default_rng(len(columns) + offset)
    arrays = []
    for count, nulls in columns:
        indices = pa.array(choose.integers(0, count, 3000), index_type, mask=choose.random(3000) < nulls)
        values = pa.array([f"v{number}" for number in range(count)])
        arrays.append(pa.DictionaryArray.from_arrays(indices, values).slice(offset))
    expected = Counter(zip(*(array.to_pylist() for array in arrays), strict=True))
    found = grouped(arrays)
    if found is None:
        assert np.prod([count + 1 for count, _ in columns]) > 3000 - offset
    else:
        rows = zip(*(values.to_pylist() for values in found[0]), strict=True)
        assert dict(zip(rows, found[1].to_pylist(), strict=True)) == expected
        assert len(found[1]) == len(expected)


def test_many_values_of_one_column():
    values = dictionary(np.arange(70_000) % 65_533, [str(number) for number in range(65_533)], pa.int32())
    groups, counts = grouped([values])
    assert len(groups[0]) == 65_533
    assert sum(counts.to_pylist()) == 70_000
    assert (
        grouped([dictionary(np.zeros(70_000), [str(number) for number in range(65_536)], pa.int32())]) is None
    )


def test_what_is_not_grouped():
    few = dictionary(np.zeros(2000), ["a"], pa.uint8())
    assert grouped([few]) is not None
    assert grouped([few.slice(0, 100)]) is None
    assert grouped([]) is None
    assert grouped([few, pa.array(["a"] * 2000)]) is None


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("grouped") / "t.lance"
    words = [f"a word that is repeated, number {number % 7}" for number in range(ROWS)]
    rows = pa.table({"word": pa.array(words), "n": pa.array(np.arange(ROWS))})
    lance_df.write_dataset(rows, path)
    lance_df.dataset(path).delete("n % 10 = 3")
    return open_table(path)


_ROWS_OF = AggregateCall(AggregateFunction.COUNT_ROWS, "rows", None, pa.int64())


def total(table, *keys, **request):
    plan = plan_scan(table, ScanRequest(output=PartialAggregate(keys, (_ROWS_OF,)), **request))
    batches = [batch for task in plan.tasks for batch in task.read()]
    found = Counter()
    for row in pa.Table.from_batches(batches, plan.schema).to_pylist():
        found[row["word"]] += row["rows"]
    return found, sum(batch.num_rows for batch in batches)


def below(number):
    return Comparison(Column(("n",)), Operator.LT, pa.scalar(number, pa.int64()))


@pytest.mark.parametrize("most", [ROWS, 5000, 3000, 800, 1])
def test_rows_of_a_table_are_counted(table, most):
    expected = Counter(
        f"a word that is repeated, number {number % 7}" for number in range(most) if number % 10 != 3
    )
    found, num_rows = total(table, "word", predicate=below(most))
    assert found == expected
    assert num_rows == 7 or most < 3000
    assert total(table, "word", "n", predicate=below(most))[0] == expected


def test_all_and_distinct_rows(table):
    found, num_rows = total(table, "word")
    assert (found.total(), num_rows) == (ROWS * 9 // 10, 7)
    plan = plan_scan(table, ScanRequest(output=PartialAggregate(("word",))))
    assert plan.schema.names == ["word"]
    assert sum(batch.num_rows for task in plan.tasks for batch in task.read()) == 7


def test_rows_are_counted_without_keys(table):
    counts = PartialAggregate((), (_ROWS_OF,))
    for predicate, expected in ((None, ROWS * 9 // 10), (below(100), 90), (below(0), 0)):
        plan = plan_scan(table, ScanRequest(output=counts, predicate=predicate))
        assert plan.schema.names == ["rows"]
        batches = [batch for task in plan.tasks for batch in task.read()]
        assert sum(sum(batch["rows"].to_pylist()) for batch in batches) == expected


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"output": PartialAggregate(())}, "needs a key or a call"),
        ({"output": PartialAggregate(("rows",), (_ROWS_OF,))}, "a name twice"),
        ({"output": PartialAggregate(("word",)), "limit": 5}, "limit"),
        ({"output": PartialAggregate(("word",)), "columns": ("word",)}, "its own"),
        ({"output": PartialAggregate(("word",)), "with_row_id": True}, "its own"),
    ],
)
def test_what_is_no_partial_aggregate(table, request_, message):
    with pytest.raises(InvalidInputError, match=message):
        plan_scan(table, ScanRequest(**request_))
