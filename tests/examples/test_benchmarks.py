"""The benchmarks run, on little data and without a look at the clock; their engines must agree."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def tpch(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tpch

    return tpch


def test_tpch(tpch, tmp_path, monkeypatch, capsys):
    engines = ["memory", "duckdb", "ours-2.0", "ours-2.2"]
    arguments = ["--data", str(tmp_path), "--scale", "0.01", "--rounds", "1", "--runs", "1"]
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


def test_opening(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import opening

    arguments = ["--fragments", "50", "--versions", "3", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["opening.py", *arguments])
    opening.main()
    assert capsys.readouterr().out.count(" ms, pylance ") == 4
