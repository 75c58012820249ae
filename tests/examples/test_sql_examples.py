"""Every SQL example gives what DataFusion gives over the same rows in memory."""

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.cli import main
from lance_df.cli.commands import demo
from lance_df.cli.examples import Example, load_examples
from lance_df.cli.flights import TABLES, load_tables
from lance_df.errors import InvalidInputError, NotFoundError

EXAMPLES = load_examples()

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "ünï code"
    demo.write_tables(folder)
    return folder


@pytest.fixture(scope="module")
def ours(root):
    return lance_df.connect(str(root))


@pytest.fixture(scope="module")
def in_memory():
    ctx = datafusion.SessionContext()
    for name, table in load_tables():
        ctx.register_record_batches(name, [table.to_batches()])
        if name == "flights":
            ctx.register_record_batches(demo.PARTITIONED, [table.to_batches()])
    return ctx


def rows(ctx, sql):
    """Return the answer as a table of one chunk; strings have one type whatever the engine prefers."""
    frame = ctx.sql(sql)
    table = pa.Table.from_batches(frame.collect(), frame.schema())
    plain = [
        pa.field(field.name, pa.string() if pa.types.is_string_view(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(plain)).combine_chunks()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_answers_are_those_of_memory(ours, in_memory, example):
    expected = rows(in_memory, example.sql)
    assert rows(ours, example.sql).equals(expected)
    assert expected.num_rows


@pytest.mark.parametrize("name", [*TABLES, demo.PARTITIONED])
def test_tables_hold_the_rows(ours, in_memory, name):
    everything = f"SELECT * FROM {name}"
    keys = [(column, "ascending") for column in rows(in_memory, everything).column_names]
    assert rows(ours, everything).sort_by(keys).equals(rows(in_memory, everything).sort_by(keys))


def test_a_day_of_flights_skips_the_rest(ours):
    (one_day,) = [example for example in EXAMPLES if "one_day" in example.name]
    report = ours.explain_scan(one_day.sql)
    assert report.fragments.kept < report.fragments.total
    assert report.bytes.kept < report.bytes.total / 2


def test_partitions_of_other_months_and_carriers_stay_closed(ours):
    summer, night = [example for example in EXAMPLES if "partition" in example.name]
    report = ours.explain_scan(summer.sql)
    by_month, by_carrier = report.tables[0].specs
    assert (by_month.partitions.kept, by_carrier.partitions.kept) == (2, 4)
    assert "partition_field_time_hour_month >= 6" in by_month.predicate
    assert "partition_field_carrier IN ('UA', 'DL')" in by_carrier.predicate
    assert "no partition field has carrier as its source in v1" in str(report)
    flights = next(table for table in ours.explain_scan(night.sql).tables if demo.PARTITIONED in table.table)
    assert flights.partitions.kept < flights.partitions.total / 3


def test_a_demo_that_was_interrupted_is_written_again(tmp_path):
    flights = dict(load_tables())["flights"].slice(0, 3000)
    for _ in range(2):
        demo.write_partitioned(tmp_path / "n", flights)
    assert lance_df.PartitionedNamespace.open(tmp_path / "n").count_rows() == 3000


def test_counting_reads_no_column(ours):
    assert ours.explain_scan(EXAMPLES[0].sql).bytes.kept == 0


def test_the_demo_shows_every_example_and_what_to_type_next(root, capsys):
    assert main(["demo", "--root", str(root)]) == 0
    shown = capsys.readouterr().out
    assert "Using the tables" in shown
    for example in EXAMPLES:
        assert example.title in shown
    assert "336776" in shown
    assert f"lance-df shell {root}" in shown


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("", "expected a path or URL, got ''"),
        ("memory://demo", "pass a path, not 'memory://demo'"),
        ("file:///demo", "pass a path, not 'file:///demo'"),
    ],
)
def test_the_demo_writes_to_a_local_folder_only(path, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--root", path]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_examples_are_in_order_and_explained():
    assert [int(example.name[:2]) for example in EXAMPLES] == list(range(1, len(EXAMPLES) + 1))
    assert all(example.title.endswith("?") and example.shows for example in EXAMPLES)


@pytest.mark.parametrize(
    "text", ["SELECT 1", "-- title: x\n-- shows: y\n", "-- title: x\n-- shows: y\nSELECT 1; SELECT 2"]
)
def test_files_that_are_no_examples(text):
    with pytest.raises(InvalidInputError, match=r"odd\.sql"):
        Example.parse("odd.sql", text)


def test_a_folder_without_examples(tmp_path):
    with pytest.raises(NotFoundError):
        load_examples(tmp_path)
