"""What the text of CSV files may have, and what is refused in it."""

from __future__ import annotations

import pytest

import lance_df
from lance_df.errors import InvalidInputError
from lance_df.spark import IngestJob, IngestSource, ingest

pytestmark = pytest.mark.spark


def test_where_a_line_ends():
    from lance_df.spark.ingesting.csv_text import ends_inside

    for line, outside, inside in [
        (b"", False, True),
        (b"1,2", False, True),
        (b'1,"a', True, False),
        (b'1,"a""', True, False),
        (b'1,"a"",""b",', False, False),
        (b'"",""', False, True),
        (b'1,55" TV', False, False),
        (b'a",b', False, False),
        (b'a","b', True, True),
        (b'1,"a"b"c', False, False),
    ]:
        found = [ends_inside(line, b",", begins_inside=each) for each in (False, True)]
        assert found == [outside, inside], line
    assert ends_inside(b'1||"a', b"||", begins_inside=False)


@pytest.fixture
def taken(spark, tmp_path):
    """Ingest the text of some files, and return the rows."""

    def take(*texts: str | bytes, schema: str | None = None, **options: str) -> list[tuple[str, ...]]:
        folder = tmp_path / "raw 1"
        folder.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            data = text if isinstance(text, bytes) else text.encode()
            (folder / f"a %20 {number}.csv").write_bytes(data)
        source = IngestSource(format="csv", paths=(str(tmp_path / "raw*"),), schema=schema, options=options)
        job = IngestJob(
            sources=(source,), target=str(tmp_path / "t"), mode="overwrite", rejects=str(tmp_path / "rejects")
        )
        summary = ingest(job, spark)
        assert summary.rows_rejected == 0
        rows = lance_df.dataset(job.target).to_table()
        return [tuple(rows.schema.names), *sorted(tuple(row.values()) for row in rows.to_pylist())]

    return take


def test_quoted_fields_may_have_line_breaks(taken):
    lines = 'id,v\n3,"many\n4,""lines"""\n5,55" TV\n'
    names = ("id", "v")
    assert taken(lines) == [names, ("3", 'many\n4,"lines"'), ("5", '55" TV')]
    assert taken('id\tv\n3\t"a\n"\n', sep="\\t") == [names, ("3", "a\n")]
    with pytest.raises(InvalidInputError, match=r"0\.csv: a quoted field .*'3,\"many'; set multiLine"):
        taken(lines, multiline="false")
    assert taken('id,v\n5,55" TV\n', multiLine="false") == [names, ("5", '55" TV')]


def test_quoted_fields_that_do_not_end(spark, taken):
    spark.conf.set("spark.sql.files.maxPartitionBytes", "200")  # many tasks read one file
    try:
        lines = "".join(f'{number},"a ""{number}""\n\n,"\n{number},5" b\n' for number in range(101))
        assert len(taken(f"id,v\n{lines}")) == 203
        open_ended = f'id,v\n{lines}7,"a\n8,b\n'
        with pytest.raises(InvalidInputError, match=r"a %20 1\.csv: the file ends within a quoted field"):
            taken("id,v\n1,2\n", open_ended)
        assert ("7", '"a') in taken("id,v\n1,2\n", 'id,v\n7,"a\n', quote="")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_line_ends_that_differ(taken):
    names = ("id", "v")
    assert taken("id,v\n1,a\r\n2,b\r\n") == [names, ("1", "a"), ("2", "b")]
    assert taken('id,v\r\n1,55" TV\r2,b\n') == [names, ("1", '55" TV'), ("2", "b")]
    assert taken("  \nid,v\n1,a\n   \n") == [names, ("1", "a")]
    broken = '1,"a\nb"'
    for ends in (f"id,v\r\n{broken}\r\n2,c\r\n", f"id,v\r\n{broken}\r\n2,c", f"id,v\r{broken}\r2,c\r"):
        assert taken(ends) == [names, ("1", "a\nb"), ("2", "c")]
    with pytest.raises(InvalidInputError, match=r"0\.csv: the lines end with \\n and \\r\\n.*t the file$"):
        taken(f"id,v\n{broken}\r\n2,c\r\n")
    text = 'id,"v\nw"\r\n1,a\r\n2,b\r\n'
    with pytest.raises(InvalidInputError, match=r'first line break is \\n .* set lineSep = "\\r\\n"'):
        taken(text)
    assert taken(text, schema="id STRING, `v\nw` STRING", lineSep="\r\n")[1:] == [("1", "a"), ("2", "b")]
    with pytest.raises(InvalidInputError, match=r"1\.csv: the lines end with \\n and \\r\\n.* of its own"):
        taken(f"id,v\n{broken}\n", "id,v\n2,c\r\n")


def test_line_ends_that_differ_in_other_parts_of_a_file(spark, taken):
    spark.conf.set("spark.sql.files.maxPartitionBytes", "200")  # many tasks read one file
    try:
        lines = "".join(f'{number},"a\n{number}"\r\n' for number in range(101))
        assert len(taken(f"id,v\r\n{lines}")) == 102
        with pytest.raises(InvalidInputError, match=r"the lines end with \\n and \\r\\n"):
            taken(f"id,v\r\n{lines}7,c\n8,d\r\n")
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")


def test_options_of_quotes_leave_line_breaks_in_fields(taken):
    expected = [("id", "v"), ("1", 'a"\nb')]
    assert taken('id,v\n1,"a\\"\nb"\n', escape="\\") == expected
    assert taken("id,v\n1,'a\"\nb'\n", quote="'") == expected


def test_names_of_files_and_folders(spark, tmp_path):
    def rows(files: dict[str, str], schema: str | None = None) -> list[tuple[object, ...]]:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        source = IngestSource(format="csv", paths=(str(folder),), schema=schema)
        return sorted(tuple(row) for row in read_source(spark, source).drop(CORRUPT).collect())

    from lance_df.spark.ingesting.checked_rows import CORRUPT
    from lance_df.spark.ingesting.sources import read_source

    assert rows({"a[1].csv": "x0,v\n1,a\n", "b{2}.csv": '"X0",v\n2,b\n'}) == [("1", "a"), ("2", "b")]
    broken = {"a[1].csv": 'x0,v\n1,"a\nb"\n', "b.csv": "x0,v\n2,b\n"}
    assert rows(broken, "x0 INT, v STRING") == [(1, "a\nb"), (2, "b")]
    with pytest.raises(InvalidInputError, match=r"a\[1\]\.csv: Spark cannot infer the columns"):
        rows(broken)
    for name in ("value", "year"):
        folders = {f"{name}=1/a.csv": "x0,v\n1,a\n", f"{name}=2/b.csv": '"x0",v\n2,"b\nc"\n'}
        assert rows(folders) == [("1", "a", 1), ("2", "b\nc", 2)]


def test_few_jobs_check_many_files(spark, tmp_path):
    from lance_df.spark.ingesting.sources import read_source

    for number in range(30):
        (tmp_path / f"{number}.csv").write_text('x0,v\n1,"a\nb"\n')
    tracker = spark.sparkContext.statusTracker()
    before = len(tracker.getJobIdsForGroup(None))
    read_source(spark, IngestSource(format="csv", paths=(str(tmp_path),)))
    assert len(tracker.getJobIdsForGroup(None)) - before < 20


def test_text_in_other_encodings(taken):
    text = "id,v\n1,é\n2,b\n"
    with pytest.raises(InvalidInputError, match=r"0\.csv: the text is not UTF-8"):
        taken(text.encode("latin1"))
    expected = [("id", "v"), ("1", "é"), ("2", "b")]
    assert taken(text.encode("latin1"), encoding="ISO-8859-1") == expected
    assert taken(text.encode("latin1"), charset="UTF-8")[1] == ("1", "\ufffd")
    assert taken("id,v\n1,\ufffd\n")[1] == ("1", "\ufffd")
    assert taken(text.encode("utf-16"), encoding="UTF-16") == expected
    with pytest.raises(InvalidInputError, match="UTF-16 needs the option multiLine = true"):
        taken(text.encode("utf-16"), encoding="UTF-16", multiLine="false")


def test_headers_with_a_name_twice_or_without_a_name(taken):
    assert taken("id,ID,v\n1,2,3\n") == [("id0", "ID1", "v"), ("1", "2", "3")]
    assert taken(",v\n1,a\n", ",v\n2,b\n") == [("_c0", "v"), ("1", "a"), ("2", "b")]
    with pytest.raises(
        InvalidInputError, match=r"1\.csv: the header has the columns v, _c1, but that of .* _c0, v;"
    ):
        taken(",v\n1,a\n", "v,\nb,2\n")
    assert taken("id1,v1\n1,a\n", "id1,v1\n2,b\n") == [("id1", "v1"), ("1", "a"), ("2", "b")]


def test_json_that_is_not_utf_8_is_rejected(spark, tmp_path):
    (tmp_path / "a.json").write_bytes(b'{"a":"\xe9"}\n{"a":"b"}\n')
    source = IngestSource(paths=(str(tmp_path / "a.json"),))
    job = IngestJob(sources=(source,), target=str(tmp_path / "t"), rejects=str(tmp_path / "rejects"))
    assert ingest(job, spark).rows_rejected == 1
    assert lance_df.dataset(job.target).to_table().to_pylist() == [{"a": "b"}]
    assert lance_df.dataset(job.rejects).to_table()["row"].to_pylist() == ['{"a":"\ufffd"}']
