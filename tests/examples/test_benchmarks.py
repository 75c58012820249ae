"""The benchmarks run, on little data and without a look at the clock; their engines must agree."""

import dataclasses
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return the folder of generated tables, which the benchmarks share."""
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture
def tpch(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tpch

    return tpch


def test_tpch(tpch, data, tmp_path, monkeypatch, capsys):
    engines = ["memory", "duckdb", "ours-2.0", "ours-2.2"]
    arguments = ["--data", str(data), "--scale", "0.01", "--rounds", "1", "--runs", "1"]
    arguments += ["--json", str(tmp_path / "results.json"), "--no-memory"]
    monkeypatch.setattr(sys, "argv", ["tpch.py", *arguments, *(f"--engine={engine}" for engine in engines)])
    tpch.main()
    shown = capsys.readouterr().out
    assert all(f"| {engine} |" in shown for engine in engines)
    assert (tmp_path / "results.json").exists()


def test_different_answers_end_the_benchmark(tpch):
    tpch.check_equal("q", {"a": [[1, 2.0]], "b": [[1, 2.0 + 1e-12]]})
    with pytest.raises(SystemExit, match="b answers"):
        tpch.check_equal("q", {"a": [[1, 2.0]], "b": [[1, 2.1]]})


@pytest.fixture
def workloads(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import workloads

    return workloads


def test_workloads(workloads, data):
    """A few queries of our own stand for those that others chose."""
    from data import ensure_data
    from queries import QUERIES, TABLES
    from workload_data import Workload, ensure_namespaces

    home = ensure_data(data, 0.01, versions=["2.2"])
    ensure_namespaces(home)
    queries = {name: QUERIES[name] for name in ("Q1", "Q3", "Q6")}
    queries["ours alone"] = "SELECT murmur3(l_orderkey) FROM lineitem ORDER BY l_orderkey LIMIT 3"
    engines = ["parquet", "duckdb_tables", "plain-2.2", "ours-2.2", "buckets-2.2"]
    few = Workload("few", home, TABLES, queries)
    run = workloads.measure(few, engines, rounds=2, runs=1, interpreters={})
    assert set(run.wrong) == {(engine, "ours alone") for engine in engines[:3]}
    assert {len(values) for by_query in run.seconds.values() for values in by_query.values()} == {2}
    assert {len(run.factors(engine, "duckdb_tables")) for engine in engines[2:]} == {3}
    assert len(list(run.ratios())) == 3 * 2
    page = run.page()
    assert "## few" in page
    assert "| Q6 |" in page
    assert "parquet, ours alone: fails: parquet: " in page


def test_answers_of_workloads_are_compared(workloads):
    rows = {"names": ["a", "b"], "types": ["int64", "double"], "rows": [[1, 2.0], [2, None], [2, 0.5]]}
    text = "SELECT a, b FROM t ORDER BY a"
    assert workloads.difference("ours-2.2", rows, rows, text) is None
    tied = rows | {"rows": [[1, 2.0], [2, 0.5], [2, None]]}
    assert workloads.difference("ours-2.2", tied, rows, text) is None
    near = rows | {"rows": [[1, 2.000001], [2, None], [2, 0.5]], "types": ["int32", "decimal128(9, 6)"]}
    assert workloads.difference("duckdb", near, rows, text) is None
    assert "types are" in workloads.difference("plain-2.2", near, rows, text)
    assert workloads.difference("ours-2.2", near | {"types": rows["types"]}, rows, text) is not None
    unordered = rows | {"rows": [[2, None], [1, 2.0], [2, 0.5]]}
    assert "row 0 in order" in workloads.difference("duckdb", unordered, rows, text)
    by_another = "SELECT a, b FROM t ORDER BY c LIMIT 3"
    assert workloads.difference("ours-2.2", unordered, rows, by_another) is None
    assert workloads.difference("ours-2.2", unordered | {"rows": []}, rows, by_another) is not None


def test_rows_like_those_of_hits(workloads):
    import pyarrow as pa
    from workload_data import hits

    names = [
        ("URL", pa.string()),
        ("UserID", pa.int64()),
        ("EventTime", pa.timestamp("us")),
        ("OS", pa.int16()),
    ]
    first, again, second = (hits(pa.schema(names), 1000, part=part) for part in (0, 0, 1))
    assert first == again
    assert first.schema == pa.schema(names)
    assert first["URL"] != second["URL"]
    assert first["EventTime"].to_pylist()[0].year == 2013


def test_opening(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import opening

    arguments = ["--fragments", "50", "--versions", "3", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["opening.py", *arguments])
    opening.main()
    assert capsys.readouterr().out.count(" ms, pylance ") == 4


def test_run(data, tmp_path, monkeypatch, capsys):
    """All suites but the one that the test above runs, and those that look at new processes."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import run

    suites = ["joins", "take", "full_scan", "overhead", "fragments", "murmur", "page_statistics", "remote"]
    arguments = ["--quick", "--data", str(data), "--version", "2.2", *(f"--suite={name}" for name in suites)]
    arguments += ["--json", str(tmp_path / "new" / "results.json"), "--svg", str(tmp_path / "chart.svg")]
    monkeypatch.setattr(sys, "argv", ["run.py", *arguments])
    run.main()
    shown = capsys.readouterr().out
    assert "## Geometric means" in shown
    assert "| take | ours-2.2 | pylance-2.2 |" in shown
    results = run.Results.load(tmp_path / "new" / "results.json")
    titles = {run.importlib.import_module(f"suites.{name}").TITLE for name in suites}
    assert set(results.suites()) == titles
    assert results.machine["cores"]
    assert results.versions["pyarrow"]
    assert any("provider" in reason for reason in results.missing)
    chart = ET.parse(tmp_path / "chart.svg").getroot()
    assert len(chart.findall("{http://www.w3.org/2000/svg}rect")) > len(list(results.ratios()))


@pytest.fixture
def two_runs(monkeypatch):
    """Two runs, the second on a machine of half the speed: one thing got slower besides, one faster."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from measures import Measure, Results

    took = {"same": 1.0, "slower": 1.0, "faster": 1.0, "noisy": 1.0}
    old = [Measure("s", case, "ours-2.2", "s", (seconds, seconds)) for case, seconds in took.items()]
    old += [Measure("s", case, "pylance-2.2", "s", (4.0, 4.0)) for case in took]
    old.append(Measure("s", "count", "ours", "requests", (10,)))
    changed = {"same": (2.0, 2.02), "slower": (2.6, 2.6), "faster": (1.0, 1.0), "noisy": (2.6, 4.6)}
    new = [
        dataclasses.replace(each, values=changed.get(each.case, (11,)))
        if each.engine.startswith("ours")
        else dataclasses.replace(each, values=(8.0, 8.0))
        for each in old
    ]
    return Results({"processor": "a"}, {"x": "1"}, old), Results({"processor": "b"}, {"x": "2"}, new)


def test_comparing_two_runs(two_runs, tmp_path, monkeypatch, capsys):
    import compare

    found = {each.new.case: each for each in compare.changes(*two_runs)}
    assert [case for case, each in found.items() if each.is_worse] == ["slower"]
    assert [case for case, each in found.items() if each.is_better] == ["faster"]
    assert found["slower"].beside_peers == pytest.approx(1.3)
    assert found["count"].ratio == pytest.approx(1.1)
    paths = [tmp_path / name for name in ("old.json", "new.json")]
    for path, results in zip(paths, two_runs, strict=True):
        results.save(path)
    monkeypatch.setattr(sys, "argv", ["compare.py", *map(str, paths)])
    assert compare.main() == 1
    shown = capsys.readouterr().out
    assert "x: 1 -> 2" in shown
    assert "| s: slower, ours-2.2 | 1.00 s | 2.60 | 2.60 | 1.30 | 0% | **worse** |" in shown
    assert "noisy" not in shown
    monkeypatch.setattr(sys, "argv", ["compare.py", str(paths[0]), str(paths[0])])
    assert compare.main() == 0


def test_a_checkout_beside_itself(data, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import paired

    checkout = str(BENCHMARKS.parent)
    arguments = [checkout, checkout, "--data", str(data), "--scale", "0.01", "--rounds", "1"]
    arguments += ["--seconds", "0.01", "--only", "session namespaces", "--case", "point"]
    monkeypatch.setattr(sys, "argv", ["paired.py", *arguments])
    monkeypatch.setattr(paired, "MAX_MEAN", 1000.0)
    monkeypatch.setattr(paired, "MAX_QUERY", 1000.0)
    paired.main()
    assert "| session namespaces | point |" in capsys.readouterr().out
    assert paired.is_worse(1.0, 1001.0)
    assert not paired.is_worse(1.0, 2.0)


def test_ratios_are_those_of_the_same_version(two_runs):
    old, _ = two_runs
    assert [(each.engine, each.peer, each.times) for each in old.ratios()] == [
        ("ours-2.2", "pylance-2.2", pytest.approx(4))
    ]
