"""Results as text tables, CSV and JSON."""

import csv
import datetime as dt
import io
import json
from decimal import Decimal

import pyarrow as pa
import pytest

from lance_df.cli.output.render import render
from lance_df.cli.output.table_lines import Screen
from lance_df.errors import InvalidInputError


def rendered(table, style, **options):
    out = io.StringIO()
    assert render(table.schema, table.to_batches(), style=style, out=out, **options) == table.num_rows
    return out.getvalue()


EVERYTHING = pa.table(
    {
        "i": pa.array([1, None], pa.int8()),
        "f": pa.array([float("nan"), -0.0]),
        "h": pa.array([1.5, None], pa.float16()),
        "b": pa.array([True, None]),
        "dec": pa.array([Decimal("12.340"), None], pa.decimal128(9, 3)),
        "day": pa.array([dt.date(2024, 2, 29), None]),
        "ns": pa.array([1, None], pa.timestamp("ns")),
        "utc": pa.array([dt.datetime(2024, 1, 1, 5, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "time": pa.array([dt.time(1, 2, 3), None], pa.time64("us")),
        "span": pa.array([dt.timedelta(seconds=90), None], pa.duration("ms")),
        "bytes": pa.array([b"\x00\xff", None]),
        "view": pa.array(["v", None], pa.string_view()),
        "list": pa.array([[1, None], []], pa.list_(pa.int64())),
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "struct": pa.array([{"x": dt.date(2024, 1, 1)}, None]),
        "dict": pa.array(["a", None]).dictionary_encode(),
        "null": pa.nulls(2),
    }
)


def test_table_aligns_numbers_and_shows_null():
    table = pa.table({"name": ["a", None, "東京"], "n": [1, 22, None]})
    assert rendered(table, "table").splitlines() == [
        "name |    n",
        "-----+-----",
        "a    |    1",
        "NULL |   22",
        "東京 | NULL",
    ]


def test_table_of_nothing_has_a_header():
    assert rendered(pa.table({"a": pa.array([], pa.int64())}), "table") == "a\n-\n"


def test_table_keeps_rows_on_one_line_and_terminals_safe():
    text = rendered(pa.table({"a": ["x\ny\x1b[31m", "z" * 100]}), "table", max_cell_width=20)
    assert "x\\ny\\x1b[31m" in text
    assert text.splitlines()[-1] == "z" * 19 + "…"


def test_tables_cut_cells_on_a_screen_alone():
    table = pa.table({"a": ["z" * 100], "b": [1]})
    assert rendered(table, "table").splitlines()[-1] == f"{'z' * 100} | 1"
    assert rendered(table, "table", max_rows=5).splitlines()[-1] == f"{'z' * 100} | 1"
    assert rendered(table, "table", max_rows=Screen(24, 120)).splitlines()[-1] == f"{'z' * 100} | 1"
    assert rendered(table, "table", max_rows=Screen(24, 80)).splitlines()[-1] == f"{'z' * 59}… | 1"


def test_plans_are_shown_as_they_are():
    plan = "A" * 100 + "\n  B\x1b[31m\n"
    table = pa.table({"plan_type": ["logical_plan", "physical_plan"], "plan": [plan, "C"]})
    text = f"logical_plan:\n  {'A' * 100}\n    B\\x1b[31m\nphysical_plan:\n  C\n"
    assert rendered(table, "table", max_rows=Screen(24, 80)) == text
    assert rendered(table, "csv").startswith("plan_type,plan\n")


def test_table_widens_for_later_rows():
    table = pa.table({"a": ["x"] * 1000 + ["yyyy"], "b": ["1"] * 1001})
    lines = rendered(table, "table").splitlines()
    assert lines[2] == "x | 1"
    assert lines[-1] == "yyyy | 1"
    assert len(lines) == 1003


def test_csv_is_read_back():
    table = pa.table({"a,b": ['say "hi"', "", None, " x", "line\nbreak"], "n": [1, 2, 3, 4, None]})
    text = rendered(table, "csv")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["a,b", "n"]
    assert [row[0] for row in rows[1:]] == ['say "hi"', "", "", " x", "line\nbreak"]
    assert '"",2\n,3\n' in text  # empty and NULL differ


def test_json_of_every_type():
    first, second = (json.loads(line) for line in rendered(EVERYTHING, "ndjson").splitlines())
    assert first == {
        "i": 1,
        "f": "NaN",
        "h": 1.5,
        "b": True,
        "dec": "12.340",
        "day": "2024-02-29",
        "ns": "1970-01-01 00:00:00.000000001",
        "utc": "2024-01-01 05:00:00Z",
        "time": "01:02:03",
        "span": "90 s",
        "bytes": "00ff",
        "view": "v",
        "list": [1, None],
        "map": [["k", 1]],
        "struct": {"x": "2024-01-01"},
        "dict": "a",
        "null": None,
    }
    assert {name for name, value in second.items() if value is not None} == {"f", "list"}


@pytest.mark.parametrize("style", ["table", "csv"])
def test_every_type_as_text(style):
    text = rendered(EVERYTHING, style)
    for part in ("NaN", "12.340", "2024-02-29", "00ff", "01:02:03"):
        assert part in text


def test_times_beyond_the_calendar_are_shown():
    far = pa.table(
        {
            "t": pa.array([2**62, None], pa.timestamp("s")),
            "l": pa.array([[2**62], None], pa.list_(pa.timestamp("s"))),
        }
    )
    header, shown, nulls = rendered(far, "csv").splitlines()
    assert header == "t,l"
    assert shown.count("146138514283-06-19 07:45:04") == 2
    assert nulls == ","


def test_json_names_are_unique():
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_2"])
    assert json.loads(rendered(table, "json")) == [{"a": 1, "a_2": 2, "a_2_2": 3}]


def test_arrow_round_trip():
    out = io.TextIOWrapper(io.BytesIO())
    render(EVERYTHING.schema, EVERYTHING.to_batches(), style="arrow", out=out)
    assert pa.ipc.open_stream(out.buffer.getvalue()).read_all().num_columns == EVERYTHING.num_columns


def test_arrow_is_not_written_to_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    with pytest.raises(InvalidInputError):
        render(EVERYTHING.schema, [], style="arrow", out=Terminal())


def test_rows_are_pulled_as_they_are_written():
    pulled = []

    def batches():
        for number in range(5):
            pulled.append(number)
            yield pa.record_batch({"a": [number] * 1000})

    class FirstLineOnly(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        render(pa.schema({"a": pa.int64()}), batches(), style="csv", out=FirstLineOnly())
    assert len(pulled) <= 1
