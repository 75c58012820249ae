"""Scans that leave out rows by the keys of the other side of a join: which do, and that no row is lost."""

import datetime as dt
import random
import re
import time

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.engine import join_keys as keys_at_run_time
from lance_df.engine.optimizer import planned
from lance_df.engine.optimizer.rules import join_keys, partial_aggregate
from lance_df.engine.provider import LanceTableProvider
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

NUM_ROWS, NUM_DAYS = 3_000, 60
DAY = dt.date(2024, 1, 1)


def tables():
    rng = random.Random(23)

    def some(values, null=0.05):
        return [None if rng.random() < null else rng.choice(values) for _ in range(NUM_ROWS)]

    days = [None, *range(NUM_DAYS)]
    facts = {
        "day": pa.array(
            sorted(some(range(NUM_DAYS)), key=lambda day: -1 if day is None else day), pa.int64()
        ),
        "date": pa.array([None if day is None else DAY + dt.timedelta(day) for day in some(range(99))]),
        "city": pa.array(some(["", "ü", "Oslo", "a", "b", "c"]), pa.string()),
        "n": pa.array(some(range(9)), pa.int32()),
        "f": pa.array(some([0.0, -0.0, float("nan"), 1.5]), pa.float64()),
        "v": pa.array(range(NUM_ROWS), pa.int64()),
    }
    return {
        "facts": pa.table(facts),
        "others": pa.table({name: pa.concat_arrays([column]).slice(100) for name, column in facts.items()}),
        "days": pa.table(
            {
                "day": pa.array(days, pa.int64()),
                "date": pa.array([None if day is None else DAY + dt.timedelta(day) for day in days]),
                "month": pa.array([0 if day is None else day // 10 for day in days], pa.int64()),
                "name": pa.array([f"day {day}" for day in days]),
            }
        ),
        "cities": pa.table({"city": ["", "ü", "Oslo", None, "x"], "country": ["A", "B", "C", "C", "D"]}),
        "countries": pa.table(
            {"country": ["A", "B", "C", None], "size": pa.array([1, 2, None, 3], pa.int32())}
        ),
        "none": pa.table({"day": pa.array([], pa.int64()), "month": pa.array([], pa.int64())}),
    }


@pytest.fixture(scope="module", params=["tables", "namespaces"])
def root(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name, rows in tables().items():
        path = folder / f"{name}.lance"
        if request.param == "namespaces" and name in ("facts", "days"):
            by = lance_df.partition.identity("n" if name == "facts" else "month")
            lance_df.PartitionedNamespace.create(folder / name, rows.schema, [by]).append(rows)
            continue
        lance_df.write_dataset(rows, path, max_rows_per_file=700)
    return folder


@pytest.fixture(scope="module")
def memory(root):
    ctx = datafusion.SessionContext()
    for name, rows in tables().items():
        ctx.register_record_batches(
            name, [rows.to_batches() or [pa.RecordBatch.from_pylist([], rows.schema)]]
        )
    return ctx


@pytest.fixture(params=["long runs", "few rows"])
def low(request, monkeypatch):
    monkeypatch.setattr(join_keys, "_LEAST_ROWS", 0)
    monkeypatch.setattr(join_keys, "_MOST_OF_ROWS", 1e9)
    monkeypatch.setattr(keys_at_run_time, "_MAX_SELECTED", 1e9)
    monkeypatch.setattr(planned, "WORTH_ROWS", 0)
    if request.param == "long runs":
        monkeypatch.setattr(keys_at_run_time, "_LONG_RUN", 0)
    else:
        monkeypatch.setattr(keys_at_run_time, "_LONG_RUN", 1e9)
        monkeypatch.setattr(keys_at_run_time, "_FEW_ROWS", 1.0)
        monkeypatch.setattr(keys_at_run_time, "_MANY_COLUMNS", 0)
        monkeypatch.setattr(keys_at_run_time, "_SOME_COLUMNS", 0)


def filtered(frame):
    """Return the filtered columns of each table, and where their values come from."""
    (statement,) = frame.statements
    return {
        sorted(name for _, name in table.names)[0]: {each.column: each.source for each in filters}
        for table in statement.tables.values()
        if (filters := table.scan.join_filters)
    }


def check(root, memory, text, wanted=None):
    off = lance_df.connect(root, scan_options=lance_df.ScanOptions(join_keys=False))
    on = lance_df.connect(root)
    expected = memory.sql(text)
    assert_same_result(on.sql(text), expected)
    frame = on.sql(text)  # once members of namespaces are open, their rows are known
    assert_same_result(frame, expected)
    assert_same_result(frame, expected)  # the keys are kept
    assert_same_result(off.sql(text), expected)
    if wanted is not None:
        found = filtered(frame)
        assert {name: sorted(found.get(name, ())) for name in wanted} == wanted
    return frame


FILTERED = {
    "comma": (
        "SELECT v, name FROM facts, days WHERE facts.day = days.day AND month = 2 ORDER BY v",
        {"facts": ["day"]},
    ),
    "semi": ("SELECT v FROM facts WHERE day IN (SELECT day FROM days WHERE month > 3) ORDER BY v", None),
    "exists": (
        "SELECT v FROM facts WHERE EXISTS (SELECT 1 FROM days WHERE days.day = facts.day AND name = 'day 7')",
        None,
    ),
    "left": (
        "SELECT days.name, v FROM days LEFT JOIN facts ON days.day = facts.day WHERE month = 1",
        {"facts": ["day"]},
    ),
    "right": (
        "SELECT days.name, v FROM facts RIGHT JOIN days ON days.day = facts.day WHERE month = 1",
        {"facts": ["day"]},
    ),
    "strings": (
        "SELECT v FROM facts JOIN cities USING (city) WHERE country IN ('A', 'C')",
        {"facts": ["city"]},
    ),
    "dates": ("SELECT v FROM facts JOIN days ON facts.date = days.date WHERE month < 2", {"facts": ["date"]}),
    "two": (
        "SELECT v FROM facts JOIN days ON facts.day = days.day JOIN cities ON facts.city = cities.city"
        " WHERE month = 3 AND country IN ('A', 'C')",
        {"facts": ["city", "day"]},
    ),
    "nested": (
        "SELECT v, size FROM facts, cities, countries WHERE facts.city = cities.city"
        " AND cities.country = countries.country AND size < 2",
        None,
    ),
    "nested in a subquery": (
        "SELECT v FROM facts JOIN (SELECT city FROM cities JOIN countries USING (country) WHERE size = 2) c"
        " ON facts.city = c.city",
        {"facts": ["city"]},
    ),
    "no key": ("SELECT v FROM facts JOIN days ON facts.day = days.day WHERE month = 77", {"facts": ["day"]}),
    "groups": (
        "SELECT g.day, n, name FROM (SELECT day, count(*) AS n FROM facts GROUP BY day) g"
        " JOIN days ON g.day = days.day WHERE month = 4 ORDER BY g.day",
        {"facts": ["day"]},
    ),
    "union": (
        "SELECT x.v FROM (SELECT v, day FROM facts WHERE n = 1) x"
        " JOIN days d ON x.day = d.day AND d.month = 1"
        " UNION ALL SELECT y.v FROM facts y JOIN days d ON y.day = d.day AND d.month = 5",
        {"facts": ["day"]},
    ),
    "an alias of a union beside another join": (
        "SELECT f.v FROM (SELECT day FROM days UNION ALL SELECT day FROM days) x"
        " JOIN days e ON x.day = e.day JOIN facts f ON f.day = x.day JOIN days d ON f.day = d.day"
        " WHERE d.month = 3",
        {"facts": ["day"]},
    ),
    "a recursive query": (
        "WITH RECURSIVE r AS (SELECT 1 AS k UNION ALL SELECT k + 1 FROM r WHERE k < 9)"
        " SELECT v FROM facts JOIN r ON facts.n = r.k JOIN days ON facts.day = days.day WHERE month = 3",
        None,
    ),
    "a condition of our own": (
        "SELECT v FROM facts JOIN days ON facts.day = days.day WHERE month = 2 AND v % 3 = 1 AND abs(n) > 2",
        {"facts": ["day"]},
    ),
    "count": (
        "SELECT count(*) AS n FROM facts JOIN days USING (day) WHERE month IN (0, 5)",
        {"facts": ["day"]},
    ),
    "intersect": (
        "SELECT city FROM facts JOIN days USING (day) WHERE month = 1"
        " INTERSECT SELECT city FROM others JOIN days USING (day) WHERE month = 2",
        {"facts": ["day"], "others": ["day"]},
    ),
    "except": (
        "SELECT city, n FROM facts JOIN days USING (day) WHERE month = 1"
        " EXCEPT SELECT city, n FROM others JOIN days USING (day) WHERE month = 2",
        {"facts": ["day"], "others": ["day"]},
    ),
}


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("name", FILTERED)
def test_rows_that_no_key_matches_are_left_out(root, memory, name):
    text, wanted = FILTERED[name]
    frame = check(root, memory, text, wanted)
    assert "facts" in filtered(frame)


UNFILTERED = {
    "kept rows": "SELECT v, name FROM facts LEFT JOIN days ON facts.day = days.day AND month = 2",
    "full": "SELECT v, name FROM facts FULL JOIN days ON facts.day = days.day AND month = 2 AND v > 9",
    "anti": (
        "SELECT v FROM facts WHERE NOT EXISTS (SELECT 1 FROM days WHERE days.day = facts.day AND month = 2)"
    ),
    "not in": "SELECT v FROM facts WHERE day NOT IN (SELECT day FROM days WHERE month = 2)",
    "first rows": (
        "SELECT v, name FROM (SELECT v, day FROM facts ORDER BY v LIMIT 900) x JOIN days ON x.day = days.day"
        " WHERE month = 2"
    ),
    "windows": (
        "SELECT v, r FROM (SELECT v, day, row_number() OVER (ORDER BY v) AS r FROM facts) x"
        " JOIN days ON x.day = days.day WHERE month = 2"
    ),
    "sets of groups": (
        "SELECT x.day, n FROM"
        " (SELECT day, city, count(*) AS n FROM facts GROUP BY GROUPING SETS ((day), (city)))"
        " x JOIN days ON x.day = days.day WHERE month = 2"
    ),
    "computed": "SELECT v FROM facts JOIN days ON facts.day = days.day + 1 WHERE month = 2",
    "computed values": (
        "SELECT v FROM (SELECT v, day + 1 AS day FROM facts) x JOIN days USING (day) WHERE month = 2"
    ),
    "an alias of a union": (
        "SELECT x.v, d.name FROM (SELECT v, day FROM facts UNION ALL SELECT v, day FROM facts) x"
        " JOIN days d ON x.day = d.day WHERE d.month = 2"
    ),
    "floats": "SELECT facts.v FROM facts JOIN (SELECT f FROM others WHERE v < 9) o ON facts.f = o.f",
    "other types": "SELECT v FROM facts JOIN days ON facts.n = days.day WHERE month = 0",
    "no condition": "SELECT v FROM facts JOIN days ON facts.day = days.day",
    "twice, once without": (
        "SELECT v FROM facts JOIN days ON facts.day = days.day WHERE month = 2 UNION ALL SELECT v FROM facts"
    ),
}


@pytest.mark.usefixtures("low")
@pytest.mark.parametrize("name", UNFILTERED)
def test_rows_that_may_be_needed_are_read(root, memory, name):
    frame = check(root, memory, UNFILTERED[name])
    assert "facts" not in filtered(frame)


@pytest.mark.usefixtures("low")
def test_a_table_in_a_subquery_out_of_sight_is_read_whole(root, memory):
    text = (
        "SELECT v FROM facts JOIN days ON facts.day = days.day"
        " WHERE month = 2 AND v > (SELECT avg(v) FROM facts) ORDER BY v"
    )
    check(root, memory, text)


@pytest.mark.usefixtures("low")
def test_random_joins(root, memory):
    rng = random.Random(5)
    keys = {
        "facts": ["day", "city", "n", "f"],
        "others": ["day", "city", "n"],
        "days": ["day"],
        "cities": ["city"],
    }
    conditions = {
        "facts": ["v < 2000", "n = 3"],
        "others": ["v > 2500"],
        "days": ["month = 2", "month < 4", "name LIKE '%1%'"],
        "cities": ["country = 'A'", "country > 'A'"],
    }
    found = 0
    for _ in range(20):
        names = [rng.choice(list(keys)) for _ in range(rng.choice([2, 3, 3, 4]))]
        text, chosen = f"{names[0]} t0", [f"t0.{keys[names[0]][0]} AS c0"]
        for number, name in enumerate(names[1:], 1):
            other = rng.randrange(number)
            shared = [key for key in keys[name] if key in keys[names[other]]]
            if not shared:
                break
            how = rng.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            # few rows match, or results are huge
            key = shared[0] if name in ("days", "cities") or names[other] in ("days", "cities") else "v"
            text += f" {how} {name} t{number} ON t{other}.{key} = t{number}.{key}"
            chosen.append(f"t{number}.{keys[name][0]} AS c{number}")
        where = [
            f"t{number}.{rng.choice(conditions[names[number]])}"
            for number in range(len(chosen))
            if rng.random() < 0.6
        ]
        query = f"SELECT {', '.join(chosen)} FROM {text}" + (f" WHERE {' AND '.join(where)}" if where else "")
        found += bool(filtered(check(root, memory, query)))
    assert found > 3


def test_versions_and_deletions(tmp_path, low):
    rows = tables()
    lance_df.write_dataset(rows["facts"], tmp_path / "facts.lance")
    days = lance_df.write_dataset(
        rows["days"].filter(pa.compute.less(rows["days"]["day"], 30)), tmp_path / "days.lance"
    )
    days.delete("day = 21")
    days.insert(rows["days"].filter(pa.compute.equal(rows["days"]["day"], 45)))
    ctx = lance_df.connect(tmp_path)
    query = (
        "SELECT DISTINCT facts.day FROM facts JOIN days {} ON facts.day = days.day"
        " WHERE name IN ('day 1', 'day 11', 'day 21') OR month = 4"
    )
    newest = ctx.sql(query.format(""))
    assert "facts" in filtered(newest)
    days.delete("day = 1")  # the statement began before
    assert sorted(newest.to_pydict()["day"]) == [1, 11, 45]
    assert sorted(ctx.sql(query.format("")).to_pydict()["day"]) == [11, 45]
    assert sorted(ctx.sql(query.format("VERSION AS OF 1")).to_pydict()["day"]) == [1, 11, 21]


def test_pages_are_pruned_when_a_statement_runs_and_not_before(tmp_path, monkeypatch):
    num_rows = 400_000
    days = pa.array([number // 1000 for number in range(num_rows)])
    lance_df.write_dataset(
        pa.table({"day": days, "v": range(num_rows)}), tmp_path / "facts.lance", max_rows_per_file=50_000
    )
    lance_df.write_dataset(
        pa.table({"day": range(400), "month": [day // 10 for day in range(400)]}), tmp_path / "days.lance"
    )
    ctx = lance_df.connect(tmp_path)
    query = "SELECT count(*) AS n, sum(v) AS s FROM facts JOIN days ON facts.day = days.day WHERE month = {}"
    asked = []
    original = keys_at_run_time.JoinKeys.values
    monkeypatch.setattr(keys_at_run_time.JoinKeys, "values", lambda self: asked.append(1) or original(self))
    report = str(ctx.explain_scan(query.format(7)))
    assert "day IN (SELECT day FROM" in report
    assert "month = 7" in report
    frame = ctx.sql(query.format(7))
    frame.execution_plan()
    assert not asked
    assert frame.to_pydict() == {"n": [10_000], "s": [sum(range(70_000, 80_000))]}
    assert asked
    (statement,) = frame.statements
    (facts,) = (table for table in statement.tables.values() if ("public", "facts") in table.names)
    assert facts.log.counters.rows == 10_000
    # most of the keys are left: to look them up would take more than it saves
    every = ctx.sql(query.format("month"))
    assert every.to_pydict()["n"] == [num_rows]


def rows_read(frame, name):
    (statement,) = frame.statements
    (table,) = (each for each in statement.tables.values() if ("public", name) in each.names)
    return table.log.counters.rows


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_keys_that_leave_few_rows_of_many_columns_are_looked_up(tmp_path, kind):
    num_rows = 60_000
    numbers = range(num_rows)
    columns = {name: pa.array([number % 11 for number in numbers]) for name in "abcd"}
    keys = pa.array([number * 7919 % 100 for number in numbers])  # no two rows with one key follow each other
    facts = pa.table({"key": keys, **columns})
    if kind == "table":
        lance_df.write_dataset(facts, tmp_path / "facts.lance")
    else:
        by = [lance_df.partition.bucket("a", 2)]
        lance_df.PartitionedNamespace.create(tmp_path / "facts", facts.schema, by).append(facts)
    names = pa.table({"key": range(100), "name": [f"n{number // 5}" for number in range(100)]})
    lance_df.write_dataset(names, tmp_path / "names.lance")
    ctx = lance_df.connect(tmp_path)

    def read(listed, condition):
        frame = ctx.sql(f"SELECT {listed} FROM facts JOIN names ON facts.key = names.key WHERE {condition}")
        rows = frame.to_arrow_table().num_rows
        return rows, rows_read(frame, "facts")

    ctx.sql("SELECT max(a + b + c + d + key) FROM facts").collect()  # members are open, their rows are known
    one, two, most = "name = 'n3'", "name IN ('n3', 'n4')", "name < 'n5'"
    assert read("a, b, c, d", one) == (3000, 3000)
    assert read("a, b, c, d", two) == (6000, 6000)
    assert read("a, b, c, d", most) == (45_000, num_rows)
    assert read("a, b", one) == (3000, 3000)
    assert read("a, b", two) == (6000, num_rows)
    assert read("a", one) == (3000, num_rows)


@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_keys_leave_rows_out_before_these_are_aggregated(tmp_path, kind, low, monkeypatch):
    monkeypatch.setattr(partial_aggregate, "_WORTH_ROWS", 1000)
    monkeypatch.setattr(partial_aggregate, "_WORTH_MEMBER_ROWS", 0)
    numbers = range(40_000)
    facts = pa.table(
        {
            "day": pa.array(
                [None if number % 400 < 4 else number // 20 % 70 for number in numbers], pa.int64()
            ),
            "shop": [number // 10 % 6 for number in numbers],
            "v": pa.array([None if number % 13 == 0 else number for number in numbers], pa.int32()),
        }
    )
    days = tables()["days"].drop_columns("date")
    lance_df.write_dataset(days, tmp_path / "days.lance")
    if kind == "table":
        lance_df.write_dataset(facts, tmp_path / "facts.lance", max_rows_per_file=9000)
    else:
        by = [lance_df.partition.bucket("shop", 2)]
        lance_df.PartitionedNamespace.create(tmp_path / "facts", facts.schema, by).append(facts)
    memory = datafusion.SessionContext()
    memory.from_arrow(facts, "facts")
    memory.from_arrow(days, "days")
    text = (
        "SELECT shop, count(*) AS n, count(v) AS c, sum(v) AS s, avg(v) AS a FROM facts"
        " JOIN days ON facts.day = days.day WHERE month = 3 GROUP BY shop ORDER BY shop"
    )
    frame = check(tmp_path, memory, text, {"facts": ["day"]})
    (statement,) = frame.statements
    assert "partial_aggregate" in [each.rule for each in statement.rules if each.effect == "applied"]
    matching = len([number for number in numbers if number % 400 >= 4 and number // 20 % 70 // 10 == 3])
    assert rows_read(frame, "facts") < matching


def test_partitions_wait_for_one_plan_with_keys(tmp_path, monkeypatch):
    days = pa.array([number // 1000 for number in range(400_000)])
    lance_df.write_dataset(pa.table({"day": days}), tmp_path / "facts.lance")
    months = pa.table({"day": range(400), "month": [day // 10 for day in range(400)]})
    lance_df.write_dataset(months, tmp_path / "days.lance")
    planned_with_keys = []
    original = LanceTableProvider._plan_anew

    def plan_anew(self, output, expression, join_filters):
        if join_filters:
            planned_with_keys.append(self.scan.source.uri)
            time.sleep(0.1)  # the other partitions come meanwhile
        return original(self, output, expression, join_filters)

    monkeypatch.setattr(LanceTableProvider, "_plan_anew", plan_anew)
    frame = lance_df.connect(tmp_path).sql(
        "SELECT count(*) AS n FROM facts JOIN days ON facts.day = days.day WHERE month = 7"
    )
    assert re.search(r"number_of_fragments=[2-9]", frame.execution_plan().display_indent())
    assert frame.to_pydict() == {"n": [10_000]}
    assert len(planned_with_keys) == 1


def test_system_columns_are_no_keys(tmp_path, low):
    rows = tables()["facts"]
    table = lance_df.write_dataset(rows, tmp_path / "facts.lance")
    query = "SELECT count(*) AS n FROM dataset x JOIN dataset y ON x._rowid = y._rowid WHERE y.v < 7"
    (batch,) = table.sql(query).with_row_id(True).build().to_batch_records()
    assert batch.to_pydict() == {"n": [7]}


def test_small_tables_and_similar_ones_are_joined_as_they_are(root):
    ctx = lance_df.connect(root)
    assert not filtered(ctx.sql("SELECT v FROM facts JOIN days ON facts.day = days.day WHERE month = 2"))


def test_keys_that_cannot_be_read_are_an_error(tmp_path, low):
    for name, rows in tables().items():
        if name in ("facts", "days"):
            lance_df.write_dataset(rows, tmp_path / f"{name}.lance")
    ctx = lance_df.connect(tmp_path)
    frame = ctx.sql("SELECT v FROM facts JOIN days ON facts.day = days.day WHERE month = 2")
    for file in (tmp_path / "days.lance" / "data").iterdir():
        file.unlink()
    with pytest.raises(lance_df.LanceError):
        frame.to_pydict()
