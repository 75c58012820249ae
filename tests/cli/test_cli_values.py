"""Values as text, as CSV and as JSON, compared with Python's own readers."""

import csv
import datetime as dt
import io
import json
import time
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lance_df.cli.output.json_text import json_text
from lance_df.cli.output.render import render
from lance_df.cli.output.table_lines import Screen
from lance_df.cli.output.value_text import value_text


def rendered(table, style, **options):
    out = io.StringIO()
    render(table.schema, table.to_batches(), style=style, out=out, **options)
    return out.getvalue()


HALVES = [np.float16(value) for value in (0.1, 1, np.nan, np.inf)] + [None, np.float16(-0.0)]
INTERVALS = [(1, -2, 0), (0, 0, -129_601_500_000_000), (0, 0, 0), None]
LONG_YEARS = ["148108-07-06 14:00:27.387913Z", "1970-01-01 00:00:00.000005Z"]
BIG = "123456789012345678901234567890.12345678"

VALUES = [
    (pa.array([2**63 - 1, -(2**63), None], pa.int64()), [str(2**63 - 1), str(-(2**63)), None]),
    (pa.array([2**64 - 1, 0, None], pa.uint64()), [str(2**64 - 1), "0", None]),
    (
        pa.array([float("nan"), float("inf"), float("-inf"), -0.0, 0.1 + 0.2, 12.0, 1e300]),
        ["NaN", "inf", "-inf", "-0.0", "0.30000000000000004", "12.0", "1e+300"],
    ),
    (pa.array([Decimal(BIG), Decimal("-1E-8"), None], pa.decimal128(38, 8)), [BIG, "-0.00000001", None]),
    (
        pa.array([Decimal("1E-10"), Decimal("-12.5")], pa.decimal256(50, 10)),
        ["0.0000000001", "-12.5000000000"],
    ),
    (pa.array([dt.date(2024, 2, 29), dt.date(1, 1, 1)]), ["2024-02-29", "0001-01-01"]),
    (
        pa.array([-1, 10**9, None], pa.timestamp("ns")),
        ["1969-12-31 23:59:59.999999999", "1970-01-01 00:00:01.000000000", None],
    ),
    (pa.array([10**9, None], pa.timestamp("ns")), ["1970-01-01 00:00:01", None]),
    (pa.array([-1, None], pa.timestamp("s", "UTC")), ["1969-12-31 23:59:59Z", None]),
    (pa.array([10**15], pa.timestamp("us", "Europe/Berlin")), ["2001-09-09 03:46:40+02:00"]),
    (  # until 1893 the offset was 53 minutes and 28 seconds
        pa.array([-2524524808500, None, 10**12], pa.timestamp("ms", "Europe/Berlin")),
        ["1889-12-31 23:06:31.500Z", None, "2001-09-09 03:46:40+02:00"],
    ),
    (
        pa.array([2**62, 0, None], pa.timestamp("s")),
        ["146138514283-06-19 07:45:04", "1970-01-01 00:00:00", None],
    ),
    (pa.array([2**62 + 9, 5], pa.timestamp("us", "UTC")), LONG_YEARS),
    (pa.array([2**31 - 1, None], pa.date32()), ["5881580-07-11", None]),
    (pa.array([86_400_000 * 2**31, 0], pa.date64()), ["5881580-07-12", "1970-01-01"]),
    (pa.array(HALVES, pa.float16()), ["0.1", "1.0", "NaN", "inf", None, "-0.0"]),
    (pa.array(INTERVALS, pa.month_day_nano_interval()), ["1 month -2 days", "-36:00:01.5", "00:00:00", None]),
    (pa.array([-1, 1_500_000_000], pa.duration("ns")), ["-0.000000001 s", "1.5 s"]),
    (pa.array([b"\x00\xff", b"", None]), ["00ff", "", None]),
    (pa.array([b"ab", None], pa.binary_view()), ["6162", None]),
    (pa.array([[1, None], [], None]), ["[1, null]", "[]", None]),
    (pa.array([["a"], None], pa.list_view(pa.string())), ['["a"]', None]),
    (pa.array([[1.5, None], None], pa.list_(pa.float64(), 2)), ["[1.5, null]", None]),
    (pa.array([{"x": 'a"b\\\n', "y": [b"\x01"]}, None]), ['{"x": "a\\"b\\\\\\n", "y": ["01"]}', None]),
    (pa.array([[("k", 1.0)], None], pa.map_(pa.string(), pa.float64())), ['[["k", 1.0]]', None]),
    (pa.array(["a", None]).dictionary_encode(), ["a", None]),
]


def shown(text):
    """Return what a test expects, where a fraction of a second is not written when it is zero."""
    return None if text is None else text.replace(":01.000000000", ":01")


@pytest.mark.parametrize(("values", "texts"), VALUES)
def test_texts_are_exact_in_every_slice(values, texts):
    expected = [shown(text) for text in texts]
    for start in range(len(values) + 1):
        assert value_text(values.slice(start)).to_pylist() == expected[start:]


def test_json_has_strings_for_what_it_cannot_say():
    floats = pa.array([float("nan"), float("inf"), float("-inf"), 1.5, None])
    assert json_text(floats).to_pylist() == ['"NaN"', '"Infinity"', '"-Infinity"', "1.5", None]
    assert json_text(pa.array([2**63 - 1])).to_pylist() == [str(2**63 - 1)]
    assert json_text(pa.array([Decimal("1.50")])).to_pylist() == ['"1.50"']


def test_json_strings_are_read_back():
    texts = ["".join(map(chr, range(0x80))), "ü東京🙂", "", '\\"', "\u2028"]
    assert [json.loads(text) for text in json_text(pa.array(texts)).to_pylist()] == texts


TEXTS = [
    "a",
    "",
    None,
    " a",
    "a ",
    "\t",
    "a,b",
    'a"b',
    "a\nb",
    "a\r\nb",
    "ü東",
    ",",
    '"',
    "'",
    "NULL",
    "\u00a0x",
]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_csv_is_exact(kind):
    table = pa.table({"t": pa.array(TEXTS, kind), "n": pa.array(range(len(TEXTS)))})
    text = rendered(table, "csv")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[1:] == [[each or "", str(number)] for number, each in enumerate(TEXTS)]
    assert '\n"",1\n,2\n" a",3\n' in text


def test_csv_of_bytes_lists_and_nothing():
    table = pa.table(
        {"b": [b"", None, b"\x01"], "l": [["a"], None, []], "e": pa.array([{}] * 3, pa.struct([]))}
    )
    assert rendered(table, "csv") == 'b,l,e\n"","[""a""]",{}\n,,{}\n01,[],{}\n'
    assert rendered(pa.table({"a": pa.array([], pa.int8())}), "csv") == "a\n"


def test_json_is_an_array_and_ndjson_is_lines():
    table = pa.table({"a": [1, 2]})
    parts = pa.Table.from_batches([*table.to_batches(), *table.slice(0, 0).to_batches(), *table.to_batches()])
    assert json.loads(rendered(parts, "json")) == [{"a": 1}, {"a": 2}] * 2
    assert rendered(parts, "ndjson") == '{"a": 1}\n{"a": 2}\n' * 2
    assert rendered(table.slice(0, 0), "json") == "[]\n"


def test_markdown_escapes_bars():
    assert rendered(pa.table({"a|b": ["x|y", "ü|"]}), "markdown").splitlines() == [
        "| a\\|b |",
        "| ---- |",
        "| x\\|y |",
        "| ü\\|  |",
    ]


def test_tables_fit_a_screen():
    table = pa.table({"a": range(1500), "b": ["x" * 10] * 1500})
    lines = rendered(table, "table", max_rows=Screen(24, 80)).splitlines()
    assert len(lines) <= 22
    assert lines[-1] == f"… {1500 - len(lines) + 3:,} more rows (--max-rows 0 shows all)"
    lines = rendered(table.select(["b"]), "table", max_rows=Screen(24, 5)).splitlines()  # two lines for a row
    assert len(lines) == 2 + 9 + 1
    assert len(rendered(table, "table", max_rows=Screen(5000, 80)).splitlines()) == 1502


def test_wide_tables_fit_a_screen():
    table = pa.table({f"column_{number}": range(100 * number, 100 * number + 9) for number in range(12)})
    lines = rendered(table, "table", max_rows=Screen(24, 40, "x shows all")).splitlines()
    assert lines[0] == "column_0 | column_1 | column_2"
    assert lines[2] == "       0 |      100 |      200"
    assert lines[11:] == [f"… 9 more columns: {', '.join(table.schema.names[3:9])},… (x shows all)"]
    lines = rendered(table, "table", max_rows=Screen(12, 40)).splitlines()
    assert lines[-2].startswith("… 9 more columns: column_3, ")
    assert lines[-1] == "… 3 more rows (--max-rows 0 shows all)"
    assert (
        rendered(table.slice(0, 0), "table", max_rows=Screen(24, 40)).splitlines()[2].startswith("… 9 more")
    )
    assert rendered(table, "table", max_rows=9).splitlines()[0].endswith("column_11")
    # values are cut before columns are left out
    texts = pa.table({"a": ["x" * 50], "b": ["y" * 50]})
    lines = rendered(texts, "table", max_rows=Screen(24, 100)).splitlines()
    assert lines[2] == f"{'x' * 29}… | {'y' * 29}…"
    assert rendered(texts, "table", max_rows=Screen(24, 110)).splitlines()[2] == f"{'x' * 50} | {'y' * 50}"


@pytest.mark.parametrize("style", ["csv", "ndjson"])
def test_many_rows_take_little_time(style):
    number = 336_776
    columns = {f"n{index}": pa.array(range(number)) for index in range(14)}
    texts = {f"t{index}": pa.array(["N14228", None, "EWR", "UA"] * (number // 4)) for index in range(4)}
    began = time.process_time()
    assert rendered(pa.table({**columns, **texts}), style).count("\n") >= number
    assert time.process_time() - began < 5  # 0.5 s where nothing else runs; row by row it is 40
