"""Whatever schema, specs, rows and predicate: the same answers with pruning, without it, and over memory."""

import datetime as dt

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from older_engines import NEGATIVE_ZERO
from test_pruning import FakeManifest

import lance_df
from lance_df import partition
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.literals import compare
from lance_df.expr.nodes import Column, Operator
from lance_df.expr.walk import columns
from lance_df.namespace.pruning.selected_members import SelectedMembers, selected_members
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.partition_values import partition_values

pytestmark = pytest.mark.engine

MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59),
    dt.datetime(1970, 1, 1),
    dt.datetime(2023, 12, 31, 23),
    dt.datetime(2024, 2, 29, 12),
    dt.datetime(2024, 3, 10, 7),
    dt.datetime(2024, 11, 3, 6),
    dt.datetime(9999, 12, 31),
]
# type, values, and what it can be partitioned by
COLUMNS = {
    "i": (pa.int64(), [-(2**63), -11, -1, 0, 1, 9, 10, 2**63 - 1], ["i", "bucket(i, 3)", "truncate(i, 10)"]),
    "b": (pa.int8(), [-128, -1, 0, 127], ["b", "truncate(b, 100)"]),
    "u": (pa.uint64(), [0, 9, 2**64 - 1], ["u", "bucket(u, 3)", "truncate(u, 7)"]),
    "s": (
        pa.string(),
        ["", "a", "ab", "abc", "é", "\U0010ffff", "it's"],
        ["s", "truncate(s, 2)", "bucket(s, 2)"],
    ),
    "f": (
        pa.float64(),
        [0.0, NEGATIVE_ZERO, 1.5, float("nan"), float("-inf")],
        ["f", "bucket(f, 3)"],
    ),
    "d": (pa.date32(), [moment.date() for moment in MOMENTS], ["d", "month(d)", "year(d)"]),
    "t": (pa.timestamp("us"), MOMENTS, ["year(t)", "month(t)", "day(t)", "hour(t)", "bucket(t, 4)"]),
    "z": (pa.timestamp("s", "America/New_York"), MOMENTS, ["year(z)", "month(z)", "hour(z)"]),
    "n": (pa.decimal128(6, 2), [-1, 0, 1, 25], ["n", "truncate(n, 10)"]),
}
EXPRESSIONS = [
    partition.expression("upper(left(col0, 1))", ["s"], field_id="initial"),
    partition.expression("coalesce(col0, 'none')", ["s"], field_id="or_none"),
    partition.expression("col0 / 5", ["b"], field_id="fifths"),
    "multi_bucket(i, s, 3)",
    partition.multi_bucket(["i", "i"], 5, field_id="twice"),
]
CHOICES = [*(field for _, _, fields in COLUMNS.values() for field in fields), *EXPRESSIONS]
SCHEMA = pa.schema([(name, data_type) for name, (data_type, _, _) in COLUMNS.items()])
SQL = {
    "i": ["-9223372036854775808", "-1", "0", "9", "10", "5.5", "'10'"],
    "b": ["-1", "0", "127", "1000"],
    "u": ["0", "9", "18446744073709551615"],
    "s": ["''", "'a'", "'abc'", "'é'", "'it''s'"],
    "f": ["0", str(NEGATIVE_ZERO), "1.5", "'NaN'::double"],
    "d": ["'2024-02-29'", "'1970-01-01'", "timestamp '2024-02-29T12:00:00'"],
    "t": ["'2024-02-29T12:00:00'", "'1970-01-01'", "'2024-04-01'"],
    "z": ["'2024-03-10T07:00:00Z'", "'2024-11-03T06:00:00Z'"],
    "n": ["0", "1.00", "25", "0.5"],
}
TERMS = {
    "upper(left(s, 1))": ["'A'", "'É'"],
    "coalesce(s, 'none')": ["'none'", "'ab'"],
    "left(s, 2)": ["'ab'", "''"],
    "date_part('month', t)": ["2", "12"],
    "date_part('hour', z)": ["2", "18"],
    "date_part('year', d)": ["2024", "1969"],
    "CAST(t AS DATE)": ["'2024-02-29'"],
    "date_trunc('month', t)": ["'2024-02-01'"],
    "b / 5": ["0", "-25"],
    "b + 1": ["0", "127"],
}
SPEC_LISTS = st.lists(
    st.lists(st.sampled_from(CHOICES), min_size=1, max_size=3, unique_by=str), min_size=1, max_size=4
)


@st.composite
def tables(draw, max_rows):
    count = draw(st.integers(1, max_rows))
    drawn = {
        name: draw(st.lists(st.sampled_from([*values, None]), min_size=count, max_size=count))
        for name, (_, values, _) in COLUMNS.items()
    }
    return pa.table(
        {name: pa.array(drawn[name], SCHEMA.field(name).type, from_pandas=False) for name in drawn}
    )


@st.composite
def leaves(draw):
    if draw(st.booleans()):
        name = draw(st.sampled_from(list(COLUMNS)))
        literals = SQL[name]
    else:
        name = draw(st.sampled_from(list(TERMS)))
        literals = TERMS[name]
    literal = draw(st.sampled_from(literals))
    kind = draw(st.sampled_from(["compare", "compare", "in", "null", "like", "between", "distinct"]))
    if kind == "null":
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    if kind == "like":
        pattern = draw(st.sampled_from(["a%", "ab%", "abc%", "%b", "a_", "é%"]))
        return f"s {draw(st.sampled_from(['LIKE', 'NOT LIKE', 'ILIKE']))} '{pattern}'"
    if kind == "in":
        listed = draw(st.lists(st.sampled_from(literals), min_size=1, max_size=5))
        return f"{name} {draw(st.sampled_from(['IN', 'NOT IN']))} ({', '.join(listed)})"
    if kind == "between":
        return f"{name} BETWEEN {literal} AND {draw(st.sampled_from(literals))}"
    if kind == "distinct":
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}DISTINCT FROM {literal}"
    return f"{name} {draw(st.sampled_from(['=', '<>', '<', '<=', '>', '>=']))} {literal}"


CONDITIONS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map(lambda part: f"NOT ({part})"),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


def answer(context, condition):
    """Return the rows, or None where the engine refuses to compute the condition."""
    try:
        found = context.sql(f"SELECT number FROM n WHERE {condition}").to_arrow_table()
    except Exception:  # noqa: BLE001 - DataFusion raises nothing narrower
        return None
    return sorted(found["number"].to_pylist())


def unpruned(snapshot, request):
    count = len(snapshot.manifest.members)
    return SelectedMembers(np.arange(count), np.zeros(count, np.intp), [request.predicate])


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), table=tables(12), specs=SPEC_LISTS)
def test_answers_are_those_without_pruning_and_of_memory(folder, data, table, specs):
    table = table.append_column("number", pa.array(range(len(table)), pa.int32()))
    root = folder / str(len(list(folder.iterdir()))) / "n"
    root.parent.mkdir()
    namespace = lance_df.PartitionedNamespace.create(root, table.schema, specs[0])
    size = -(-len(table) // len(specs))
    for place, spec in enumerate(specs):
        if place:
            namespace.update_partition_spec(spec)
        namespace.append(table.slice(place * size, size))
    memory, plain, ours = (
        datafusion.SessionContext(),
        datafusion.SessionContext(),
        lance_df.connect(root.parent),
    )
    memory.from_arrow(table, name="n")
    lance_df.register(plain, "n", root)
    for condition in data.draw(st.lists(CONDITIONS, min_size=8, max_size=8)):
        expected = answer(memory, condition)
        if expected is None:
            continue
        assert answer(ours, condition) == expected, condition
        assert answer(plain, condition) in (expected, None), condition
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NamespaceSnapshot, "selected_members", unpruned)
            patch.setattr(NamespaceSnapshot, "plan", NamespaceSnapshot._planned)
            assert answer(ours, condition) == expected, condition


def partitions_of(table, spec, schema):
    """Return the manifest of one spec version over a table, with the rows of each partition."""
    values = {
        field.column: partition_values(field, [table[schema.path(each)[0]] for each in field.source_ids])
        for field in spec.fields
    }
    rows = pa.table(values)
    codes = [tuple(map(repr, row.values())) for row in rows.to_pylist()]
    places = {code: [at for at, other in enumerate(codes) if other == code] for code in codes}
    members = rows.take([each[0] for each in places.values()])
    names = pa.array([f"v1$x{number}$dataset" for number in range(len(places))])
    pinned = pa.array([1] * len(members), pa.uint64())
    members = members.append_column("object_id", names).append_column("location", names)
    members = members.append_column("read_version", pinned)
    manifest = FakeManifest(members, PartitionSpecs((spec,)))
    manifest.schema = schema
    return manifest, [table.take(each) for each in places.values()]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), table=tables(25), choices=SPEC_LISTS.map(lambda specs: specs[0]))
def test_equality_keeps_no_more_partitions_than_may_hold_the_value(data, table, choices):
    schema = NamespaceSchema.create(table.schema)
    spec = PartitionSpec(1, resolve_all(choices, schema))
    manifest, parts = partitions_of(table.combine_chunks().to_batches()[0], spec, schema)
    field = data.draw(st.sampled_from(spec.fields))
    name = schema.path(field.source_ids[0])[0]
    present = table[name].combine_chunks().drop_null().unique()
    if not len(present):
        return
    value = present[data.draw(st.integers(0, len(present) - 1))]
    condition = compare(Column((name,)), table.schema.field(name).type, Operator.EQ, value)
    kept = set(selected_members(manifest, condition).positions.tolist())
    for number, rows in enumerate(parts):
        truth = evaluate(condition, gather_columns(rows, columns(condition)), len(rows))
        if truth.true_count:
            assert number in kept
    own = [each for each in spec.fields if each.source_ids == (schema.columns.field(name).id,)]
    implied = {each.column: partition_values(each, [pa.repeat(value, 1)])[0].as_py() for each in own}
    for row in manifest.members.take(sorted(kept)).to_pylist():
        assert {column: repr(row[column]) for column in implied} == {
            column: repr(found) for column, found in implied.items()
        }
