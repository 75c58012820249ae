"""No partition that holds a match is pruned, and equalities prune all that cannot hold one."""

import datetime as dt
import random
from types import SimpleNamespace

import pyarrow as pa
import pytest

from lance_df import partition
from lance_df.errors import CorruptDataError
from lance_df.expr.bounds import Match
from lance_df.expr.evaluate import evaluate, gather_columns
from lance_df.expr.literals import compare, is_in
from lance_df.expr.nodes import And, Column, IsNull, Literal, Not, Operator, Or, Unknown
from lance_df.expr.walk import columns
from lance_df.namespace.pruning.selected_members import judged_members
from lance_df.namespace.pruning.selected_members import selected_members as kept_by_condition
from lance_df.namespace.spec.namespace_schema import NamespaceSchema
from lance_df.namespace.spec.partition_by import resolve_all
from lance_df.namespace.spec.partition_spec import PartitionSpec, PartitionSpecs
from lance_df.namespace.spec.partition_values import partition_values

pytestmark = pytest.mark.engine

NAN = float("nan")
UTC_MOMENTS = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(2023, 12, 31, 23),
    dt.datetime(2024, 1, 1),
    dt.datetime(2024, 2, 29, 12, 30),
    dt.datetime(2024, 11, 15),
    dt.datetime(2025, 1, 10, 7),
    dt.datetime(2025, 3, 9, 2, 30),
    None,
]
POOLS = {
    "i": (pa.int64(), [-(2**63), -25, -10, -1, 0, 1, 9, 10, 34, 2**63 - 1, None]),
    "s": (pa.string(), ["", "a", "ab", "abc", "abd", "b", "é", "\U0010ffffx", "NULL", None]),
    "f": (pa.float64(), [0.0, -0.0, 1.5, -2.0, NAN, float("inf"), None]),
    "t": (pa.timestamp("us"), UTC_MOMENTS),
    "z": (pa.timestamp("ms", "America/New_York"), UTC_MOMENTS),
    "d": (pa.date32(), [moment and moment.date() for moment in UTC_MOMENTS]),
    "m": (pa.date64(), [moment and moment.date() for moment in UTC_MOMENTS]),
}
SPECS = [
    ["i"],
    ["truncate(i, 10)"],
    ["bucket(i, 4)", "s"],
    ["s"],
    ["truncate(s, 2)"],
    ["f"],
    ["bucket(f, 3)"],
    ["year(t)"],
    ["year(t)", "month(t)"],
    ["year(t)", "month(t)", "day(t)", "hour(t)"],
    ["month(t)"],
    ["day(t)", "year(d)"],
    ["hour(t)"],
    ["year(z)", "month(z)"],
    ["month(z)", "hour(z)"],
    ["d", "month(d)"],
    ["year(m)", "month(m)"],
    ["multi_bucket(i, s, 5)"],
    ["multi_bucket(i, i, 5)"],
    ["multi_bucket(s, i, s, 5)"],
    [partition.expression("upper(left(col0, 1))", ["s"]), "year(d)"],
]
SCHEMA = NamespaceSchema.create(pa.schema([(name, data_type) for name, (data_type, _) in POOLS.items()]))


class FakeManifest:
    """What pruning asks of a manifest."""

    schema = SCHEMA
    table = SimpleNamespace(uri="the manifest")
    has_distinct_members = False

    def __init__(self, members, specs):
        self.members = members
        self.specs = specs


def sample(random_, count):
    return pa.table(
        {
            name: pa.array(random_.choices(pool, k=count), t, from_pandas=False)
            for name, (t, pool) in POOLS.items()
        }
    )


def partitioned(specs, rows):
    """Return a manifest of partitions and, for each of them, its rows."""
    versions = tuple(PartitionSpec(number, resolve_all(spec, SCHEMA)) for number, spec in enumerate(specs, 1))
    members, parts = [], []
    for spec in versions:
        found = {
            field.column: partition_values(
                field, [rows.column(SCHEMA.path(number)[0]).combine_chunks() for number in field.source_ids]
            )
            for field in spec.fields
        }
        values = pa.table(found)
        keys = [repr(row) for row in values.to_pylist()]
        for key in dict.fromkeys(keys):
            places = [place for place, other in enumerate(keys) if other == key]
            members.append(
                {"object_id": f"{spec.name}$x{len(members)}$dataset", **values.to_pylist()[places[0]]}
            )
            parts.append(rows.take(places))
    fields = {field.column: field.result_type for spec in versions for field in spec.fields}
    schema = pa.schema([("object_id", pa.string()), *fields.items()])
    found = pa.Table.from_pylist(members, schema)
    found = found.append_column("read_version", pa.array([1] * len(found), pa.uint64()))
    found = found.append_column("location", found["object_id"])
    return FakeManifest(found, PartitionSpecs(versions)), parts


def leaf(random_, sources):
    name = random_.choice(sources if random_.random() < 0.8 else list(POOLS))
    data_type, pool = POOLS[name]
    column = Column((name,))
    present = [value for value in pool if value is not None]
    if random_.random() < 0.15:
        return IsNull(column)
    if random_.random() < 0.3:
        values = pa.array(random_.sample(present, random_.randint(1, 4)), data_type, from_pandas=False)
        return is_in(column, data_type, values)
    value = pa.scalar(random_.choice(present), data_type)
    return compare(column, data_type, random_.choice(list(Operator)), value)


def predicate(random_, sources, depth=2):
    if depth == 0 or random_.random() < 0.3:
        return leaf(random_, sources)
    kind = random_.choice([And, Or, And, Not])
    if kind is Not:
        return Not(predicate(random_, sources, depth - 1))
    return kind(tuple(predicate(random_, sources, depth - 1) for _ in range(random_.randint(2, 3))))


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_what_partitions_prove_of_predicates(number):
    random_ = random.Random(number)
    other = random_.choice(SPECS)
    specs = [SPECS[number]] if other == SPECS[number] else [SPECS[number], other]
    manifest, parts = partitioned(specs, sample(random_, 80))
    sources = [
        SCHEMA.path(number)[0] for field in manifest.specs.fields.values() for number in field.source_ids
    ]
    pruned = 0
    for _ in range(15):
        condition = predicate(random_, sources)
        for match, rows in zip(judged_members(manifest, condition), parts, strict=True):
            if match != Match.MIGHT:
                pruned += 1
                values = gather_columns(rows.combine_chunks(), columns(condition))
                truth = evaluate(condition, values, len(rows)).to_pylist()
                assert (set(truth) == {True}) if match == Match.MUST else (True not in truth), (
                    condition,
                    truth,
                )
    assert pruned


def selected_members(manifest, *conditions):
    condition = And(conditions) if len(conditions) > 1 else conditions[0] if conditions else Literal(True)
    return manifest.members.filter(pa.array(judged_members(manifest, condition) != Match.CANNOT))


def kept_values(spec, rows, *conditions):
    manifest, _ = partitioned([spec], rows)
    kept = selected_members(manifest, *conditions).drop_columns(["object_id", "read_version", "location"])
    return [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in kept.to_pylist()]


def column_of(name, values):
    nulls = {other: pa.nulls(len(values), t) for other, (t, _) in POOLS.items()}
    return pa.table({**nulls, name: pa.array(values, POOLS[name][0])})


def where(name, operator, value):
    data_type = POOLS[name][0]
    return compare(Column((name,)), data_type, Operator(operator), pa.scalar(value, data_type))


@pytest.mark.parametrize("spec", [["i"], ["bucket(i, 1000)"], ["truncate(i, 1)"]])
def test_equality_keeps_one_partition(spec):
    rows = column_of("i", list(range(50)))
    assert len(kept_values(spec, rows, where("i", "=", 7))) == 1
    both = is_in(Column(("i",)), pa.int64(), pa.array([7, 8]))
    assert len(kept_values(spec, rows, both)) == 2


YEAR = [dt.datetime(2024, month, day) for month in range(1, 13) for day in (1, 30 if month != 2 else 29)]


def test_t21_months_wrap():
    rows = column_of("t", YEAR)
    low, high = where("t", ">=", dt.datetime(2024, 11, 15)), where("t", "<", dt.datetime(2025, 2, 10))
    assert sorted(kept_values(["month(t)"], rows, And((low, high)))) == [1, 2, 11, 12]
    far = where("t", "<", dt.datetime(2026, 2, 10))
    assert len(kept_values(["month(t)"], rows, And((low, far)))) == 12


def test_t22_days_wrap():
    rows = column_of("t", [dt.datetime(2024, 1, day) for day in range(1, 32)])
    low, high = where("t", ">=", dt.datetime(2024, 1, 30)), where("t", "<=", dt.datetime(2024, 2, 2))
    assert sorted(kept_values(["day(t)"], rows, And((low, high)))) == [1, 2, 30, 31]


def test_t23_years_and_months():
    rows = column_of(
        "t", [dt.datetime(year, month, 1) for year in (2023, 2024, 2025) for month in (1, 6, 12)]
    )
    low, high = where("t", ">=", dt.datetime(2023, 12, 1)), where("t", "<", dt.datetime(2024, 2, 1))
    assert kept_values(["year(t)", "month(t)"], rows, And((low, high))) == [(2023, 12), (2024, 1)]


def test_t24_one_end_keeps_months():
    rows = column_of("t", YEAR)
    assert len(kept_values(["month(t)"], rows, where("t", "<", dt.datetime(2025, 2, 1)))) == 12


def test_t25_inequality_keeps_what_is_not_one_to_one():
    rows = column_of("i", list(range(20)))
    for spec in (["bucket(i, 4)"], ["truncate(i, 10)"]):
        assert len(kept_values(spec, rows, where("i", "<>", 5))) == len(kept_values(spec, rows))


def test_t26_inequality_on_identities():
    rows = column_of("i", [5, 6, None])
    assert kept_values(["i"], rows, where("i", "<>", 5)) == [6]
    assert kept_values(["i"], rows, Or((where("i", "<>", 5), IsNull(Column(("i",)))))) == [6, None]


def test_t28_contradictions_keep_nothing():
    rows = column_of("i", [1, 2])
    assert kept_values(["bucket(i, 1000)"], rows, And((where("i", "=", 1), where("i", "=", 2)))) == []


def test_t32_nulls_of_several_columns_are_in_other_buckets():
    rows = column_of("i", [None, 5]).set_column(1, "s", pa.array(["a", "a"]))
    assert len(kept_values(["multi_bucket(i, s, 1000)"], rows, IsNull(Column(("i",))))) == 2
    assert kept_values(["bucket(i, 1000)"], rows, IsNull(Column(("i",)))) == [None]


@pytest.mark.parametrize("value", [5, None])
def test_a_column_that_a_field_has_twice_prunes(value):
    rows = column_of("i", [None, 5, 6, 7, 8])
    spec = ["multi_bucket(i, i, 100000)"]
    is_it = IsNull(Column(("i",))) if value is None else where("i", "=", value)
    (bucket,) = kept_values(spec, rows, is_it)
    assert (bucket is None) == (value is None)
    assert kept_values(spec, rows, And((is_it, where("f", "=", 1.5)))) == [bucket]
    assert len(kept_values(spec, rows, Or((is_it, where("i", "=", 7))))) == 2
    assert len(kept_values(spec, rows, where("i", ">", 5))) == 5


def test_t33_a_spec_without_the_field_keeps_its_partitions():
    rows = column_of("s", ["US", "DE"]).set_column(0, "i", pa.array([1, 2]))
    manifest, _ = partitioned([["i"], ["s"]], rows)
    kept = selected_members(manifest, where("s", "=", "US"))
    assert kept["object_id"].to_pylist() == ["v1$x0$dataset", "v1$x1$dataset", "v2$x2$dataset"]


def test_t35_what_is_not_known_keeps():
    rows = column_of("i", [1, 2])
    unknown = Unknown("abs(i) = 5")
    assert kept_values(["i"], rows, unknown) == [1, 2]
    assert kept_values(["i"], rows, And((unknown, where("i", "=", 1)))) == [1]


def test_what_partition_values_prove_is_not_asked_of_rows():
    rows = column_of("t", [dt.datetime(2023, 6, 1), dt.datetime(2023, 12, 1), dt.datetime(2024, 6, 1), None])
    since, other = where("t", ">=", dt.datetime(2023, 7, 1)), where("i", "=", 3)
    manifest, _ = partitioned([["year(t)"], ["year(t)", "month(t)"]], rows)
    kept = kept_by_condition(manifest, And((since, other)))
    names = [manifest.members["object_id"][place].as_py()[:2] for place in kept.positions.tolist()]
    left = [kept.residuals[choice] for choice in kept.choices.tolist()]
    both = And((since, other))
    expected = {"v1": [both, other, both], "v2": [other, other, both]}
    assert sorted(zip(names, map(str, left), strict=True)) == sorted(
        (name, str(predicate)) for name, predicates in expected.items() for predicate in predicates
    )
    kept = kept_by_condition(manifest, since, pruning_predicate=where("t", "<", dt.datetime(2023, 12, 31)))
    assert {str(kept.residuals[choice]) for choice in kept.choices.tolist()} == {str(since), "None"}


def test_members_of_no_spec_are_an_error():
    manifest, _ = partitioned([["i"]], column_of("i", [1]))
    manifest.members = manifest.members.set_column(0, "object_id", pa.array(["v10$x$dataset"]))
    with pytest.raises(CorruptDataError, match="'v10'"):
        judged_members(manifest, where("i", "=", 1))


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_truncated_texts_keep_all_that_begin_like_them(width):
    texts = [text for text in POOLS["s"][1] if text is not None]
    for text in texts:
        for operator in ("=", "<=", ">="):
            found = kept_values([f"truncate(s, {width})"], column_of("s", texts), where("s", operator, text))
            assert text[:width] in found
        assert kept_values([f"truncate(s, {width})"], column_of("s", texts), where("s", "=", text)) == [
            text[:width]
        ]
