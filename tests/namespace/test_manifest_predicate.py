"""The predicate on ``__manifest`` that reports print selects just the members that are read.

The SQL is evaluated by DataFusion over the rows of ``__manifest``, those of namespaces among them.
"""

import datetime as dt
import random

import datafusion
import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_pruning import POOLS, SCHEMA, SPECS, partitioned, predicate, sample
from test_pruning_properties import CONDITIONS, SPEC_LISTS, tables

import lance_df
from lance_df import partition
from lance_df.expr.literals import compare, is_in
from lance_df.expr.nodes import And, Column, IsNull, Not, Operator, Or, Unknown
from lance_df.expr.terms import Call, Value
from lance_df.namespace.pruning.pruning_report import manifest_query, spec_reports
from lance_df.namespace.pruning.selected_members import selected_members
from lance_df.namespace.pruning.value_tuples import ValueTuples
from lance_df.namespace.snapshot import NamespaceSnapshot

pytestmark = pytest.mark.engine

# specs in which several fields follow from one column, and such of several columns
COMBINED = [
    ["year(d)", "month(d)", "day(d)"],
    ["f", "bucket(f, 3)", "truncate(s, 2)"],
    ["i", "bucket(i, 4)", "year(t)", "month(t)"],
    [partition.expression("coalesce(col0, '/* none */')", ["s"], field_id='it\'s a "field" */'), "month(d)"],
    [partition.expression("CASE WHEN col0 > col1 THEN 'above' END", ["i", "f"], field_id="Above")],
]


def rows_of(manifest):
    """Return the rows of ``__manifest``: the members, and namespaces with a part of their values."""
    members = manifest.members.append_column("object_type", pa.array(["table"] * len(manifest.members)))
    members = members.append_column("read_branch", pa.nulls(len(members), pa.string()))
    members = members.append_column("read_tag", pa.nulls(len(members), pa.string()))
    levels = members.to_pylist()
    for number, row in enumerate(levels):
        row |= {"object_type": "namespace", "object_id": row["object_id"].removesuffix("$dataset")}
        names = [name for name in row if name.startswith("partition_field_")]
        row |= dict.fromkeys(names[number % (len(names) + 1) :])
    return pa.concat_tables([members, pa.Table.from_pylist(levels, members.schema)])


def found_by_sql(rows, query):
    context = datafusion.SessionContext()
    context.from_arrow(rows, name="__manifest")
    return sorted(context.sql(query).to_pydict()["object_id"])


def check(manifest, condition, hint=None):
    """Compare what the printed SQL finds with what is selected; return how many members that are."""
    selected = selected_members(manifest, condition, hint)
    reports = spec_reports(manifest, condition, hint, selected)
    names = manifest.members["object_id"].take(pa.array(selected.positions)).to_pylist()
    query = manifest_query(reports)
    assert found_by_sql(rows_of(manifest), query) == sorted(names), query
    assert sum(report.partitions.kept for report in reports) == len(names)
    return len(names)


def condition_of(random_, sources):
    """Return a random predicate; some of its parts are terms, lists with NULL, and tests for NULL."""
    found = [predicate(random_, sources)]
    name = random_.choice(sources)
    data_type, pool = POOLS[name]
    if random_.random() < 0.3:
        listed = is_in(Column((name,)), data_type, pa.array(random_.choices(pool, k=6), data_type))
        found.append(random_.choice([listed, Not(listed), IsNull(listed)]))
    if random_.random() < 0.3:
        pattern = Value(pa.scalar(random_.choice(["a%", "%b", "é_"])))
        found.append(
            Unknown("a pattern", Call(random_.choice(["LIKE", "NOT LIKE"]), (Column(("s",)), pattern)))
        )
    if random_.random() < 0.3:
        found.append(IsNull(predicate(random_, sources)))
    return random_.choice([And, Or])(tuple(found))


@pytest.mark.parametrize("number", range(len(SPECS) + len(COMBINED)))
def test_random_predicates(number):
    random_ = random.Random(number)
    every = [*SPECS, *COMBINED]
    versions = [every[number], *(spec for spec in random_.sample(every, 2) if spec != every[number])]
    manifest, _ = partitioned(versions, sample(random_, 60))
    fields = manifest.specs.fields.values()
    sources = [SCHEMA.path(field_id)[0] for field in fields for field_id in field.source_ids]
    counts = {check(manifest, condition_of(random_, sources)) for _ in range(12)}
    hints = [check(manifest, None, condition_of(random_, sources)) for _ in range(3)]
    assert {*counts, *hints} - {len(manifest.members)}


def rows_with(name, values):
    nulls = {other: pa.nulls(len(values), data_type) for other, (data_type, _) in POOLS.items()}
    return pa.table({**nulls, name: pa.array(values, POOLS[name][0], from_pandas=False)})


def where(name, operator, value):
    data_type = POOLS[name][0]
    return compare(Column((name,)), data_type, Operator(operator), pa.scalar(value, data_type))


def test_nan_of_both_signs_and_both_zeros():
    nan = float("nan")
    manifest, _ = partitioned([["f"]], rows_with("f", [0.0, -0.0, 1.5, nan, -nan, None]))
    assert len(manifest.members) == 4
    for operator in Operator:
        for value in (0.0, -0.0, 1.5, nan, float("inf")):
            check(manifest, where("f", operator, value))
    for values in ([-0.0, 7.0, 8.0, 9.0], [nan, 1.5, 2.5, 3.5], [*map(float, range(20)), nan]):
        listed = is_in(Column(("f",)), pa.float64(), pa.array(values, from_pandas=False))
        assert check(manifest, listed) == sum(value in values for value in (0.0, 1.5, nan))
        check(manifest, Not(listed))
    assert check(manifest, Or((And((where("f", ">", 1.0), where("f", "<", 2.0))), where("i", "=", 1)))) == 4


@pytest.mark.parametrize(
    "data_type", [pa.float16(), pa.float64(), pa.string(), pa.binary(), pa.decimal128(9)]
)
def test_tuples_of_values_of_any_type(data_type):
    texts = pa.array(["1", "2", None, "3", "1"])
    first = texts.cast(pa.float32()).cast(data_type) if data_type == pa.float16() else texts.cast(data_type)
    second = pa.array([1, 1, None, 1, 2])
    tuples = ValueTuples("tuples", None, ("a", "b"), (first.slice(1, 2), second.slice(1, 2)))
    assert tuples.contain({"a": first, "b": second}).to_pylist() == [False, True, True, False, False]
    assert tuples.contain({"a": first.slice(0, 0), "b": second.slice(0, 0)}).to_pylist() == []


def test_dates_of_partitions_that_hold_one_date():
    days = [dt.date(2024, month, day) for month in (1, 2) for day in (1, 2, 3)]
    manifest, _ = partitioned([["year(d)", "month(d)", "day(d)"]], rows_with("d", [*days, None]))
    listed = is_in(Column(("d",)), pa.date32(), pa.array([days[0], days[4]]))
    assert check(manifest, listed) == 2
    assert check(manifest, where("d", "<>", days[0])) == 6  # what is NULL may be a year beyond the calendar
    assert check(manifest, Not(listed)) == 5
    assert selected_members(manifest, where("d", "=", days[0])).residuals == [None]


def test_a_term_that_fails_for_some_partitions_is_asked_of_the_others():
    values = [0, 2, 5, None]
    manifest, _ = partitioned([["i"], ["i", "s"]], rows_with("i", values))
    tenth = Call("/", (Value(pa.scalar(10)), Column(("i",))))
    is_two = Unknown("10 / i = 2", Call("=", (tenth, Value(pa.scalar(2)))))
    assert check(manifest, And((is_two, where("i", ">", 1)))) == 2
    # it cannot be computed for all that are left: nothing is known of them
    assert check(manifest, is_two) == len(manifest.members)
    assert check(manifest, Or((is_two, where("i", ">", 1)))) == len(manifest.members)


def test_rows_from_which_nothing_follows_are_selected(tmp_path):
    table = pa.table({"k": pa.array([1, 2, None]), "v": [1, 2, 3]})
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", table.schema, ["k"])
    namespace.append(table)
    lance_df.dataset(tmp_path / "n" / "__manifest").update(
        {"read_version": "NULL"}, where="object_type = 'table' AND partition_field_k IS NULL"
    )
    (report,) = lance_df.connect(tmp_path).explain_scan("SELECT v FROM n WHERE k = 2").tables
    assert report.partitions.kept == 2
    manifest = lance.dataset(tmp_path / "n" / "__manifest").to_table()
    assert len(found_by_sql(manifest, report.manifest_query)) == 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("random")


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(table=tables(12), specs=SPEC_LISTS, conditions=st.lists(CONDITIONS, min_size=8, max_size=8))
def test_what_a_session_reads(folder, table, specs, conditions):
    root = folder / str(len(list(folder.iterdir()))) / "n"
    root.parent.mkdir()
    namespace = lance_df.PartitionedNamespace.create(root, table.schema, specs[0])
    size = -(-len(table) // len(specs))
    for place, spec in enumerate(specs):
        if place:
            namespace.update_partition_spec(spec)
        namespace.append(table.slice(place * size, size))
    context, manifest = lance_df.connect(root.parent), lance.dataset(root / "__manifest").to_table()
    for condition in conditions:
        selected = []
        with pytest.MonkeyPatch.context() as patch:
            original = NamespaceSnapshot.selected_members

            def recorded(self, request, original=original, selected=selected):
                members = original(self, request)
                selected[:] = self.manifest.members["object_id"].take(pa.array(members.positions)).to_pylist()
                return members

            patch.setattr(NamespaceSnapshot, "selected_members", recorded)
            try:
                (report,) = context.explain_scan(f"SELECT * FROM n WHERE {condition}").tables
            except Exception:  # noqa: BLE001 - DataFusion raises nothing narrower
                continue
        assert found_by_sql(manifest, report.manifest_query) == sorted(selected), report.manifest_query
