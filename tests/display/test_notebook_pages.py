"""HTML for notebooks: well-formed, escaped, without scripts, and of bounded size, whatever a table holds."""

from __future__ import annotations

import pickle
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df import partition
from lance_df.display.cells import cell_text
from lance_df.display.elements import bar, escaped
from lance_df.scan.report import Count

pytestmark = pytest.mark.engine

EVIL = "<script>alert('&\"')</script><img src=x onerror=alert(1)>"


def parsed(page: str) -> ET.Element:
    """Return a page as XML, which all that is shown is."""
    tree = ET.fromstring(page.replace("<br>", "<br/>"))
    names = {element.tag for element in tree.iter()}
    assert names.isdisjoint({"script", "img", "iframe", "style", "link", "a"})
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith("on")]
    return tree


def test_hostile_names_and_values_are_text(tmp_path: Path) -> None:
    data = pa.table(
        {
            EVIL: [1, 2, 3],
            "p": [EVIL, "\x00\x1b[31m\u202eabc", None],
            "nested": [{EVIL: EVIL}] * 3,
            "items": [[EVIL] * 50, [], None],
        }
    )
    ds = lance_df.write_dataset(data, tmp_path / "t.lance")
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [partition.identity("p")])
    made.append(data)
    ds.tags.create("a-tag")
    report = lance_df.connect(tmp_path).explain_scan(
        f"SELECT * FROM n WHERE p = '{EVIL.replace(chr(39), chr(39) * 2)}'"
    )
    frame = lance_df.connect(tmp_path).sql("SELECT * FROM n")
    for each in (ds, made, ds.lance_schema, ds.tags, ds.branches, ds.versions(), report, frame):
        page = each._repr_html_()
        parsed(page)
        assert EVIL not in page
        assert "\x1b" not in page
        assert "\u202e" not in page
    assert "&lt;script&gt;" in ds._repr_html_()
    assert "a-tag" in ds.tags._repr_html_()


def test_pages_say_what_there_is(tmp_path: Path) -> None:
    data = pa.table({"id": range(300), "g": [n % 30 for n in range(300)]})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [partition.identity("g")])
    made.append(data)
    page = made._repr_html_()
    tree = parsed(page)
    for fact in ("30 partitions", "300 rows", "version 2", "by g"):
        assert fact in page
    assert len(list(tree.iter("rect"))) == 30
    assert "g = 7: 10 rows" in page
    table = lance_df.write_dataset(data, tmp_path / "t.lance")._repr_html_()
    for fact in ("300 rows", "1 fragment", "2 columns", "int64"):
        assert fact in table


def test_histories_show_versions(tmp_path: Path) -> None:
    ds = lance_df.write_dataset(pa.table({"a": range(1500)}), tmp_path / "t.lance")
    ds.delete("a >= 600")
    versions = ds.versions()
    assert versions == list(versions)
    assert pickle.loads(pickle.dumps(versions)) == versions
    page = versions._repr_html_()
    rows = list(parsed(page).iter("tr"))[1:]
    assert [row[0].text for row in rows] == ["2", "1"]
    assert [each.attrib["aria-label"] for each in parsed(page).iter("svg")] == ["600", "1,500"]
    assert "40 older versions" in type(versions)(list(versions) * 70)._repr_html_()
    assert parsed(type(versions)()._repr_html_()) is not None


def test_frames_show_their_first_rows(tmp_path: Path) -> None:
    lance_df.write_dataset(pa.table({"a": range(1500)}), tmp_path / "t.lance")
    ctx = lance_df.connect(tmp_path)
    page = ctx.sql("SELECT a FROM t ORDER BY a")._repr_html_()
    assert [row[0].text for row in list(parsed(page).iter("tr"))] == ["a", *map(str, range(20))]
    assert "more rows" in page
    assert "more rows" not in ctx.sql("SELECT a FROM t WHERE a < 20")._repr_html_()
    assert "<th>a</th>" in ctx.sql("SELECT a FROM t WHERE a < 0")._repr_html_()
    assert "plan_type" in ctx.sql("EXPLAIN SELECT a FROM t")._repr_html_()
    failed = ctx.sql("SELECT 1 / (a - 700) FROM t")._repr_html_()
    parsed(failed)
    assert "cannot be read: " in failed


def test_wide_tables_and_huge_values_are_cut(tmp_path: Path) -> None:
    data = pa.table({f"column {number}": ["x" * 200_000] * 8 for number in range(300)})
    page = lance_df.write_dataset(data, tmp_path / "t.lance")._repr_html_()
    parsed(page)
    assert len(page) < 100_000
    assert "300 columns" in page
    assert "280 more columns" in page


def test_many_partitions_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lance_df.api.descriptions._MAX_PARTITIONS", 40)
    data = pa.table({"g": range(400)})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [partition.identity("g")])
    made.append(data)
    page = made._repr_html_()
    assert "first 40 of 400 partitions" in page
    assert len(list(parsed(page).iter("rect"))) == 40


def test_directories_show_what_is_in_them(tmp_path: Path) -> None:
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    with lance_df.DirectoryNamespace(tmp_path) as directory:
        directory.create_namespace(["sales"])
    page = directory._repr_html_()
    parsed(page)
    for fact in ("directory namespace", "<td>t</td>", "<td>sales</td>"):
        assert fact in page


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    ds = lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "t.lance")
    for file in (tmp_path / "t.lance" / "data").iterdir():
        file.unlink()
    page = lance_df.dataset(ds.uri)._repr_html_()
    parsed(page)
    assert "cannot be read" in page


def test_reports_have_bars_and_reasons(tmp_path: Path) -> None:
    data = pa.table({"id": range(300), "g": [n % 30 for n in range(300)]})
    made = lance_df.PartitionedNamespace.create(tmp_path / "n", data.schema, [partition.identity("g")])
    made.append(data)
    page = lance_df.connect(tmp_path).explain_scan("SELECT * FROM n WHERE g < 3")._repr_html_()
    bars = list(parsed(page).iter("svg"))
    assert [each.attrib["aria-label"] for each in bars][:2] == ["3 of 30", "3 of 3"]
    assert "partition_field_g" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (pa.scalar(None, pa.int64()), "NULL"),
        (pa.scalar("x" * 10**6), "x" * 80 + "…"),
        (pa.scalar("é" * 90, pa.large_string()), "é" * 80 + "…"),
        (pa.scalar(b"\xff" * 10**6), "1,000,000 bytes"),
        (pa.scalar([1, 2, 3, 4, 5, None]), "[1, 2, 3, 4, … 6 in all]"),
        (pa.scalar({"a": 1, "b": [None]}), "{a: 1, b: [NULL]}"),
        (pa.scalar([[[[[1]]]]]), "[[[…]]]"),
        (pa.array(["a"]).dictionary_encode()[0], "a"),
        (pa.scalar(3_000_000, pa.date32()), "10183-09-21"),
        (pa.array([2**62], pa.timestamp("s", "Europe/Berlin"))[0], f"<value out of range: {2**62}>"),
        (pa.array([2**62], pa.duration("s"))[0], str(2**62)),
        (pa.array([b"0" * 16], pa.uuid())[0], "16 bytes"),
        (pa.scalar(b"0"), "1 byte"),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))[0], "[{key: k, value: 1}]"),
    ],
)
def test_values_are_short(value: Any, text: str) -> None:
    assert cell_text(value) == text


def test_text_is_cut_and_escaped() -> None:
    assert escaped("a<b>\x00\ud800") == "a&lt;b&gt;\N{REPLACEMENT CHARACTER}?"
    assert escaped("a\nb\tc") == "a b c"
    assert len(escaped("<" * 10_000)) < 1_300
    assert 'width="0.0"' in bar(Count(0, 0), "0 of 0")
    assert 'width="120.0"' in bar(Count(7, 3), "odd")


def test_text_of_objects(tmp_path: Path) -> None:
    ds = lance_df.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t.lance")
    for number in range(12):
        ds.tags.create(f"tag-{number:02}")
    assert "'tag-00' at 1" in repr(ds.tags)
    assert "12 in all" in repr(ds.tags)
    assert repr(ds.branches).endswith("none>")
    assert "2 rows, 1 fragment" in repr(ds.optimize)
    assert "2 rows, 1 fragment" in repr(ds.stats)
    assert repr(ds.scanner(["a"], "a > 1", limit=3)).endswith("columns=['a'], filter=a > 1, limit=3>")
    assert repr(ds.scanner(filter=pc.field("a") > 1, use_stats=False)).endswith(
        "filter=(a > 1), use_stats=False>"
    )
    assert repr(ds.filter(pc.field("a") > 1).scanner(filter="a < 3")).endswith("a < 3, condition=(a > 1)>")
    assert len(repr(ds.scanner(filter="a = 1 OR " * 10_000 + "a = 2"))) < 500
