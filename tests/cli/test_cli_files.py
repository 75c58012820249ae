"""Files in FROM."""

import gzip
import json

import datafusion
import lance
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lance_df
from lance_df.sql.file_sources import quoted_tables

RELEASE = int(datafusion.__version__.partition(".")[0])

pytestmark = pytest.mark.engine

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["x", None, ""]})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "raw").mkdir()
    lance.write_dataset(ROWS, "t.lance")
    for number in range(2):
        pq.write_table(ROWS.slice(number, 1), f"raw/{number}.parquet")
        lance.write_dataset(ROWS.slice(number, 1), f"raw/{number}.lance")
    (tmp_path / "c.csv").write_text('id,name\n1,x\n2,\n3,""\n')
    (tmp_path / "tabs.tsv").write_text('id\tname\n1\tx\n2\t\n3\t""\n')
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(b'id,name\n1,x\n2,\n3,""\n'))
    lines = [json.dumps(row) for row in ROWS.to_pylist()]
    (tmp_path / "j.ndjson").write_text("\n".join(lines) + "\n")
    (tmp_path / "packed.json.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    for suffix in (".zst", ".bz2"):
        for name, plain in (("packed.csv", "c.csv"), ("packed.json", "j.ndjson")):
            with pa.output_stream(tmp_path / (name + suffix)) as stream:  # compressed by its name
                stream.write((tmp_path / plain).read_bytes())
    (tmp_path / "array.json").write_text(json.dumps(ROWS.to_pylist(), indent=1))
    with pa.ipc.new_file("f.arrow", ROWS.schema) as writer:
        writer.write_table(ROWS)
    with pa.ipc.new_stream("s.arrows", ROWS.schema) as writer:
        writer.write_table(ROWS)
    pq.write_table(ROWS, "P.PARQUET")
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        *("t.lance", "c.csv", "tabs.tsv", "packed.csv.gz", "j.ndjson", "packed.json.gz"),
        *("packed.csv.zst", "packed.json.zst", "packed.csv.bz2", "packed.json.bz2"),
        *("array.json", "f.arrow", "s.arrows", "P.PARQUET", "./t.lance"),
    ],
)
def test_each_kind_of_file(cli, folder, name):
    code, out, err = cli("sql", f"SELECT id, name FROM '{name}' ORDER BY id", "--format", "ndjson")
    assert code == 0, err
    assert [json.loads(line) for line in out.splitlines()] == ROWS.to_pylist()


def test_values_of_late_lines_of_json_are_whole(cli, folder):
    (folder / "late.ndjson").write_text('{"a": 1}\n' * 3_000 + '{"a": 2.5, "b": "x"}\n')
    code, out, _ = cli("sql", "SELECT a, b FROM 'late.ndjson' WHERE a <> 1", "--format", "csv")
    assert (code, out) == (0, "a,b\n2.5,x\n")


@pytest.mark.parametrize("pattern", ["raw/*.parquet", "raw/*.lance", "r*/?.parquet", "**/[01].parquet"])
def test_patterns(cli, folder, pattern):
    assert (
        cli("sql", f"SELECT sum(id) AS n, count(*) AS m FROM '{pattern}'", "--format", "csv")[1]
        == "n,m\n3,2\n"
    )


def test_files_of_a_pattern_have_all_columns_together(cli, folder):
    (folder / "raw" / "1.csv").write_text("a,b\n1,x\n")
    (folder / "raw" / "2.csv").write_text("a,c\n2.5,7\n")
    _, out, _ = cli("sql", "SELECT a, b, c FROM 'raw/*.csv' ORDER BY a", "--format", "csv")
    assert out == "a,b,c\n1.0,x,\n2.5,,7\n"


def test_parquet_of_a_pattern_has_all_columns_together(cli, folder):
    (folder / "deep").mkdir()
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}), folder / "raw" / "x.parquet")
    pq.write_table(pa.table({"a": pa.array([2**40], pa.int64()), "b": ["y"]}), folder / "deep" / "x.parquet")
    _, out, _ = cli("sql", "SELECT a, b FROM '*/x.parquet' ORDER BY a", "--format", "csv")
    assert out == f"a,b\n1,\n{2**40},y\n"


@pytest.mark.parametrize("name", ["all.parquet", "all[1].parquet", "all.parquet/", "all[1].parquet/"])
def test_a_folder_of_files_is_a_table(cli, folder, name):
    (folder / "raw").rename(folder / name)
    assert cli("sql", f"SELECT sum(id) AS n FROM '{name}'", "--format", "csv")[1] == "n\n3\n"


@pytest.mark.parametrize("suffix", ["parquet", "json"])
@pytest.mark.parametrize("pattern", ["part*/?", "part[12]/[12]", "p*/[!0]"])
def test_files_in_folders_of_a_pattern_have_all_columns_together(cli, folder, pattern, suffix):
    for number, row in enumerate(({"a": 1, "b": "x"}, {"a": 2, "c": 7}), 1):
        path = folder / f"part{number}" / f"{number}.{suffix}"
        path.parent.mkdir()
        if suffix == "json":
            path.write_text(json.dumps(row))
        else:
            pq.write_table(pa.Table.from_pylist([row]), path)
    _, out, err = cli("sql", f"SELECT a, b, c FROM '{pattern}.{suffix}' ORDER BY a", "--format", "csv")
    assert out == "a,b,c\n1,x,\n2,,7\n", err


def test_objects_of_an_array_have_all_columns_together(cli, folder):
    (folder / "some.json").write_text('[{"a": 1}, {"b": 3, "a": 2}, {}]')
    assert cli("sql", "FROM 'some.json'", "--format", "csv")[1] == "a,b\n1,\n2,3\n,\n"
    (folder / "none.json").write_text("[]")
    assert cli("sql", "SELECT count(*) AS n FROM 'none.json'", "--format", "csv")[1] == "n\n0\n"


@pytest.mark.parametrize("suffix", ["parquet", "ndjson", "csv"])
@pytest.mark.parametrize("within", [".", "run[1]", "what?*"])
def test_names_of_files_may_hold_wildcards(cli, folder, monkeypatch, within, suffix):
    (folder / within).mkdir(exist_ok=True)
    monkeypatch.chdir(folder / within)
    names = [f"{stem}.{suffix}" for stem in ("p?", "px", "p[1]", "p1", "p*", "q y%20")]
    for name in names:
        row = {"name": name}
        if suffix == "parquet":
            pq.write_table(pa.Table.from_pylist([row]), name)
        else:
            text = json.dumps(row) if suffix == "ndjson" else f"name\n{name}\n"
            (folder / within / name).write_text(text)
    for name in names:
        _, out, err = cli("sql", f"SELECT name FROM '{name}'", "--format", "csv")
        assert out == f"name\n{name}\n", err
    assert cli("sql", f"SELECT count(*) AS n FROM 'p?*.{suffix}'", "--format", "csv")[1] == "n\n5\n"


def test_files_join_tables_and_double_quotes_work(cli, folder):
    sql = (
        "SELECT count(*) AS n FROM t JOIN \"c.csv\" AS c ON t.id = c.id JOIN 'raw/0.parquet' p ON p.id = c.id"
    )
    assert cli("sql", sql, "--format", "csv")[:2] == (0, "n\n1\n")


@pytest.mark.parametrize(
    ("sql", "output"),
    [
        ("FROM 'c.csv' LIMIT 1", "id,name\n1,x\n"),
        ("CREATE VIEW v AS SELECT id FROM 'c.csv'; SELECT max(id) AS m FROM v", "m\n3\n"),
        ("WITH a AS (SELECT * FROM 'c.csv') SELECT count(*) AS n FROM a", "n\n3\n"),
        ("SELECT 'c.csv' AS name", "name\nc.csv\n"),
        pytest.param(
            'SELECT "c.csv".id FROM \'c.csv\' WHERE id = (SELECT min(id) FROM "t.lance")',
            "id\n1\n",
            marks=pytest.mark.skipif(RELEASE < 54, reason="qualifiers with a dot are taken apart"),
        ),
    ],
)
def test_statements(cli, folder, sql, output):
    assert cli("sql", sql, "--format", "csv")[:2] == (0, output)


def test_a_scan_of_a_file_is_explained(cli, folder):
    code, out, _ = cli("explain", "SELECT id FROM 't.lance' WHERE id = 1")
    assert code == 0
    assert "t.lance" in out


def test_a_file_is_read_as_it_is_now(cli, folder):
    from lance_df.cli.files import FileTables
    from lance_df.engine.session import connect

    ctx = connect()
    files = FileTables(ctx)
    sql = "SELECT count(*) AS n FROM 'c.csv'"
    for text, num_rows in (("id\n1\n", 1), ("id,other\n1,2\n3,4\n", 2)):
        (folder / "c.csv").write_text(text)
        files.register_for(sql)
        assert ctx.sql(sql).to_pylist() == [{"n": num_rows}]


def test_a_table_of_that_name_comes_first(cli, folder):
    lance.write_dataset(ROWS.slice(0, 1), "c.csv.lance")
    assert cli("sql", "SELECT count(*) AS n FROM 'c.csv'", "--format", "csv")[1] == "n\n1\n"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cc.csv", "cc.csv: file does not exist; did you mean 'c.csv'?"),
        ("nowhere/d.csv", "folder 'nowhere' does not exist"),
        ("raw/*.csv", "no file matches"),
        ("bad.parquet", "bad.parquet: cannot be read as parquet"),
        ("bad.csv", "bad.csv: cannot be read as csv"),
        ("bad.arrow", "bad.arrow: cannot be read as arrow"),
        ("numbers.json", "every value of the JSON array must be an object"),
        ("empty.lance", "empty.lance"),
        ("s3://bucket/x.parquet", "parquet files of remote stores are not supported in FROM"),
    ],
)
def test_what_cannot_be_read_is_named(cli, folder, name, reason):
    for each in ("bad.parquet", "bad.arrow"):
        (folder / each).write_bytes(b"nothing of the kind")
    (folder / "bad.csv").write_bytes(b"")
    (folder / "numbers.json").write_text("[1, 2]")
    (folder / "empty.lance").mkdir()
    code, out, err = cli("sql", f"SELECT * FROM '{name}'")
    assert (code, out) == (1, "")
    [line] = err.splitlines()
    assert reason in line


@pytest.mark.skipif(RELEASE < 54, reason="has no suggestions")
def test_columns_of_files_are_suggested(cli, folder):
    code, _, err = cli("sql", "SELECT nam FROM 'c.csv'")
    assert code == 1
    assert "Did you mean" in err


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", ()),
        ("EXPLAIN ANALYZE SELECT * FROM 'a.csv'", ("a.csv",)),
        ("DESCRIBE 'a.csv'", ("a.csv",)),
        ("PREPARE p AS SELECT * FROM 'a.csv' WHERE a = $1", ("a.csv",)),
        ("SELECT extract(year FROM 'a.csv'), trim('a' FROM 'b.csv') FROM t", ()),
        ("COPY (SELECT * FROM 'a.csv') TO 'b.csv' STORED AS CSV", ("a.csv",)),
        ("SELECT * FROM s.'a.csv'", ()),
        ("SELECT ' FROM", ()),
        ("SELECT * FROM 'a.csv', 'b.csv' WHERE x IN (SELECT 1 FROM 'a.csv')", ("a.csv", "b.csv")),
    ],
)
def test_names_in_quotes_come_from_the_tree(sql, names):
    assert quoted_tables(sql) == names


def test_a_path_is_read_in_other_versions(cli, folder):
    lance_df.write_dataset(ROWS, folder / "raw" / "T.lance")
    lance_df.write_dataset(ROWS, folder / "raw" / "T.lance", mode="append")
    for query in ("FROM 'raw/T.lance' VERSION AS OF 1", "FROM './raw/T.lance' FOR VERSION AS OF 1 x"):
        _, output, _ = cli("sql", f"SELECT count(*) FROM ({query})", "--format", "csv")
        assert output == "count(*)\n3\n"


@pytest.mark.parametrize("suffix", ["ndjson", "parquet", "csv"])
def test_patterns_leave_out_hidden_files(cli, folder, suffix):
    for name, value in ((".hidden", 100), ("a", 1), ("b", 2)):
        rows, path = pa.table({"a": [value]}), f"{name}.{suffix}"
        if suffix == "parquet":
            pq.write_table(rows, path)
        else:
            (folder / path).write_text(f"a\n{value}\n" if suffix == "csv" else f'{{"a":{value}}}\n')
        code, out, err = cli("sql", f"SELECT sum(a) AS s FROM '[ab.]*.{suffix}'", "--format", "csv")
        if name != ".hidden":
            assert (code, out.split()) == (0, ["s", "1" if name == "a" else "3"]), err


def test_json_has_the_same_types_in_any_pattern(cli, folder):
    (folder / "nj" / "a").mkdir(parents=True)
    for name, zone in (("x", "+05:00"), ("y", "Z")):
        line = json.dumps({"t": f"2024-01-01 00:00:00{zone}", "u": "2024-01-01T00:00:00", "n": 1})
        (folder / "nj" / "a" / f"{name}.ndjson").write_text(line + "\n")
    columns = "arrow_typeof(u) AS type, u, t, arrow_typeof(n) AS number"
    query = "SELECT " + columns + " FROM '{}' WHERE t LIKE '%+05:00'"
    patterns = ("a/x.ndjson", "a/*.ndjson", "*/x.ndjson", "*/*.ndjson", "**/*.ndjson")
    answers = {cli("sql", query.format(f"nj/{each}"), "--format", "csv")[1] for each in patterns}
    assert len(answers) == 1
    assert "Utf8" in answers.pop()


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_pattern_matches_arrays_and_lines(cli, folder, names):
    (folder / "js").mkdir()
    for name, text in zip(names, ('{"a":1}\n', '[{"a":2}]'), strict=True):
        (folder / "js" / f"{name}.json").write_text(text)
    code, out, err = cli("sql", "SELECT sum(a) AS s FROM 'js/*.json'", "--format", "csv")
    assert (code, out.split()) == (0, ["s", "3"]), err


def test_large_integers_are_exact(cli, folder):
    ids = [2**64 - 1, 2**64 - 2]
    (folder / "ids.csv").write_text("id\n" + "\n".join(map(str, ids)))
    (folder / "ids.json").write_text(json.dumps([{"id": each} for each in ids]))
    for name in ("ids.csv", "ids.json"):
        query = f"SELECT id, arrow_typeof(id) AS type, count(*) AS n FROM '{name}' GROUP BY id ORDER BY id"
        code, out, err = cli("sql", query, "--format", "csv")
        assert (code, out.split()) == (0, ["id,type,n", *(f"{each},UInt64,1" for each in ids[::-1])]), err
