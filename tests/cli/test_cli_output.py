"""Where `lance-df sql` takes statements from, and what it writes, as processes of their own."""

import shlex
import subprocess
import sys
from pathlib import Path

import datafusion
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from new_processes import run_command

import lance_df

NEEDS_MESSAGES = pytest.mark.skipif(
    int(datafusion.__version__.partition(".")[0]) < 53, reason="errors are printed as Rust writes them"
)

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def process(tmp_path):
    """Run `lance-df` in a process: returns the exit code, stdout and stderr."""

    def run(*arguments, text=""):
        done = run_command(*arguments, cwd=tmp_path, text=text)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    return run


def test_statements_from_stdin_options_and_files(process, root, tmp_path):
    (tmp_path / "q.sql").write_text("SELECT 2 AS b; SELECT 3 AS c")
    code, out, _ = process(
        "sql", "-c", "SELECT 1 AS a", "-f", "q.sql", "-c", "SELECT 4 AS d", "--format", "csv"
    )
    assert (code, out) == (0, "a\n1\nb\n2\nc\n3\nd\n4\n")
    sql = "SELECT count(*) AS n FROM trips;"
    assert process("sql", "-", root, "--format", "csv", text=sql)[:2] == (0, "n\n990\n")
    assert process("sql", root, "--format", "csv", text=sql)[:2] == (0, "n\n990\n")
    code, out, err = process("sql")
    assert (code, out) == (2, "")
    assert "SQL is missing" in err


def test_files_are_written_whole_or_not_at_all(process, root, tmp_path):
    sql = "SELECT id, city FROM trips ORDER BY id"
    for name in ("out.csv", "out.parquet", "out.arrow", "out.md"):
        code, out, err = process("sql", sql, root, "--output", name)
        assert (code, out) == (0, ""), err
        assert "990 rows" in err
    assert (tmp_path / "out.csv").read_text().startswith('id,city\n0,\n1,Zürich\n2,東京\n3,""\n')
    assert pq.read_table(tmp_path / "out.parquet").num_rows == 990
    with pa.OSFile(str(tmp_path / "out.arrow")) as file:
        assert pa.ipc.open_stream(file).read_all().num_rows == 990
    before = sorted(path.name for path in tmp_path.iterdir())
    code, _, err = process("sql", "SELECT 1 / (id - 500) FROM trips", root, "-o", "out.csv")
    assert code == 1
    assert (tmp_path / "out.csv").read_text().startswith("id,city\n0,")
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    code, _, err = process("sql", "SELECT 1", root, "-o", "nowhere/out.csv")
    assert (code, "nowhere/out.csv" in err) == (1, True)
    for name in ("two.parquet", "two.json", "two.csv"):
        code, _, err = process("sql", "SELECT 1; SELECT 2", root, "-o", name)
        assert (code, "one result" in err, (tmp_path / name).exists()) == (1, True, False)
    assert process("sql", "SELECT 1; SELECT 2", root, "-o", "two.ndjson")[0] == 0


@pytest.mark.parametrize("words", [("sql", "-"), ("sql", "-f", "-"), ("sql",), ("shell",)])
def test_a_closed_stdin_has_no_statements(tmp_path, words):
    command = f"{shlex.join([sys.executable, '-m', 'lance_df.cli', *words])} <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert "Error" not in done.stderr
    assert done.returncode == {"shell": 0, "sql": 2}.get(words[-1], 1)


def test_parquet_goes_into_a_pipe(root):
    command = [
        sys.executable,
        "-m",
        "lance_df.cli",
        "sql",
        "SELECT * FROM trips",
        str(root),
        "--format",
        "parquet",
    ]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, timeout=120)
    assert pq.read_table(pa.BufferReader(done.stdout)).num_rows == 990


def test_tables_are_cut_where_that_is_asked_for(cli, root):
    sql = "SELECT id FROM trips ORDER BY id"
    out = cli("sql", sql, root, "--max-rows", "2")[1]
    assert out.splitlines() == ["id ", "--", " 0", " 1", "… 988 more rows (--max-rows 0 shows all)"] or (
        out.splitlines()[-1] == "… 988 more rows (--max-rows 0 shows all)"
    )
    assert len(cli("sql", sql, root, "--max-rows", "0")[1].splitlines()) == 992
    assert len(cli("sql", sql, root)[1].splitlines()) == 992
    assert cli("sql", sql, root, "--max-rows", "-1")[0] == 2


@NEEDS_MESSAGES
def test_a_misspelt_table_gets_a_suggestion(cli, root):
    code, _, err = cli("sql", "SELECT * FROM tripz", root)
    assert code == 1
    assert "table 'tripz' not found; did you mean 'trips'?" in err


@NEEDS_MESSAGES
def test_errors_name_no_positions_in_other_texts(cli, root):
    code, _, err = cli("sql", "SELECT id\nFROM trips WHERE", root)
    assert code == 1
    assert "Line:" not in err
    assert "syntax error: " in err


def test_errors_of_functions_are_short(cli, root):
    code, _, err = cli("sql", "SELECT sum(city) FROM trips", root)
    assert code == 1
    assert "bug in DataFusion" not in err
    assert "Internal error" not in err
    assert "sum" in err


def test_options_of_statements_are_checked(root):
    from lance_df.engine.session import connect
    from lance_df.errors import InvalidInputError

    with pytest.raises(InvalidInputError, match="SQLOptions, got int"):
        connect().sql("SELECT 1", 1)


@NEEDS_MESSAGES
def test_errors_of_expressions_show_what_was_written(tmp_path):
    import lance_df

    lance_df.write_dataset(pa.table({"id": [1], "fare": [1.5]}), tmp_path / "t.lance")
    table = lance_df.dataset(tmp_path / "t.lance")
    for expression in ("nix + 1", "1 +", "1 1"):
        with pytest.raises(lance_df.errors.LanceError) as caught:
            table.update({"fare": expression})
        assert "_rowaddr" not in str(caught.value)
        assert "Line:" not in str(caught.value)
        assert expression.strip() in str(caught.value)


@pytest.mark.parametrize("name", ["x.tsv", "x.pq", "x.lance", "x.csv.gz"])
def test_a_file_that_is_no_format_is_not_written(process, root, tmp_path, name):
    target = tmp_path / name
    code, _, err = process("sql", "SELECT 1 AS a", root, "--output", str(target))
    assert code == 2
    assert "choose a format with --format" in err
    assert not target.exists()
    assert process("sql", "SELECT 1 AS a", root, "--output", str(target), "--format", "csv")[0] == 0
    assert target.read_text() == "a\n1\n"


def test_a_column_with_nulls_is_read_back_from_csv(process, root, tmp_path):
    for number, values in enumerate(("(1), (NULL), (3)", "('a'), (NULL), ('')", "(NULL)")):
        target = tmp_path / f"x{number}.csv"
        assert process("sql", f"SELECT x FROM (VALUES {values}) AS t(x)", root, "-o", str(target))[0] == 0
        sql = f"SELECT count(*) AS n, count(x) AS x FROM '{target}'"
        rows = values.count("(")
        code, out, err = process("sql", sql, root, "--format", "csv")
        assert (code, out) == (0, f"n,x\n{rows},{rows - 1}\n"), err


def test_a_type_that_parquet_does_not_have(process, tmp_path):
    decimals = pa.array([5000, 0, None]).cast(pa.decimal128(19, 0)).cast(pa.decimal128(5, -3), safe=False)
    lance_df.write_dataset(pa.table({"d": decimals}), tmp_path / "neg.lance")
    code, _, err = process("sql", "-o", "neg.parquet", "SELECT d FROM neg", ".")
    assert (code, (tmp_path / "neg.parquet").exists()) == (1, False)
    assert "the rows cannot be written as Parquet: Scale must be" in err


def test_links_stay_and_what_they_lead_to_is_written(process, tmp_path):
    (tmp_path / "target.csv").write_text("old\n")
    (tmp_path / "latest.csv").symlink_to("target.csv")
    (tmp_path / "out").symlink_to("/proc/self/fd/1")
    (tmp_path / "stdout").symlink_to("out")
    assert process("sql", "SELECT 1 AS a", "-o", "latest.csv")[0] == 0
    assert (tmp_path / "latest.csv").is_symlink()
    assert (tmp_path / "target.csv").read_text() == "a\n1\n"
    for name in ("out", "stdout", "/dev/stdout"):
        assert process("sql", "SELECT 1 AS a", "-o", name, "--format", "csv")[:2] == (0, "a\n1\n")
    with open(tmp_path / "log.csv", "w") as log:
        log.write("before\n")
        log.flush()
        command = [
            sys.executable,
            "-m",
            "lance_df.cli",
            "sql",
            "SELECT 1 AS a",
            "-o",
            "out",
            "--format",
            "csv",
        ]
        subprocess.run(command, stdout=log, cwd=tmp_path, check=True, timeout=120)
    assert (tmp_path / "log.csv").read_text() == "before\na\n1\n"
    assert (tmp_path / "out").is_symlink()
    code, _, err = process("sql", "SELECT 1 AS a", "-o", "no/such/folder.csv")
    assert (code, "No such file" in err) == (1, True)


def test_results_without_columns(process, tmp_path):
    (tmp_path / "e.json").write_text("[]")
    code, _, err = process("sql", "FROM 'e.json'", "-o", "e.parquet")
    assert (code, "needs a result with columns" in err) == (1, True)
    assert not (tmp_path / "e.parquet").exists()
