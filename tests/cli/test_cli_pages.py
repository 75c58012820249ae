"""`--html`: pages that need no other file, run no script, and show only text that was there."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., tuple[int, str, str]]

EVIL = "<script>alert('&\"')</script>"


def parsed(page: str) -> ET.Element:
    """Return a page as XML, once the elements without an end have one."""
    assert page.startswith("<!doctype html>\n")
    text = re.sub(r"<(br|meta [^>]*)>", r"<\1/>", page.removeprefix("<!doctype html>\n"))
    tree = ET.fromstring(text)
    assert {element.tag for element in tree.iter()}.isdisjoint({"script", "img", "iframe", "link", "a"})
    assert not [name for element in tree.iter() for name in element.attrib if name.startswith("on")]
    assert EVIL not in page
    return tree


def titles(tree: ET.Element) -> list[str | None]:
    return [element.text for element in tree.iter() if element.tag in ("h1", "h2")]


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A table and a namespace whose columns and values look like HTML."""
    rows = pa.table({EVIL: [1, 2, 3], "p": [EVIL, "\x1b[31m", None]})
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    made = lance_df.PartitionedNamespace.create(
        tmp_path / "n", rows.schema, [lance_df.partition.identity("p")]
    )
    made.append(rows)
    return tmp_path


def test_a_table_is_a_page(cli: Run, root: Path) -> None:
    code, out, err = cli("inspect", root / "trips.lance", "--html")
    assert (code, err) == (0, "")
    tree = parsed(out)
    assert titles(tree) == [
        *(str(root / "trips.lance"), "table", "versions", "columns", "fragments", "indices", "statistics")
    ]
    for fact in ("990 rows", "Zürich", "ZONEMAP".lower(), "<td>createindex</td>"):
        assert fact in out


def test_an_older_version_is_a_page(cli: Run, root: Path) -> None:
    code, out, _ = cli("inspect", root / "trips.lance", "--version", "1", "--html")
    assert code == 0
    assert "version 1 · 1,000 rows" in out


def test_a_namespace_is_a_page_with_a_map(cli: Run, evil: Path) -> None:
    code, out, _ = cli("inspect", evil / "n", "--html")
    tree = parsed(out)
    assert code == 0
    assert titles(tree)[1:] == ["namespace", "columns", "specs", "partitions", "versions"]
    assert len([each for each in tree.iter("rect") if "fill-opacity" in each.attrib]) == 3
    code, out, _ = cli("inspect", evil / "n", "--version", "1", "--html")
    assert code == 0
    assert "version 1 · 0 partitions" in out


def test_files_and_folders_are_pages(cli: Run, evil: Path) -> None:
    (data,) = (evil / "t.lance" / "data").iterdir()
    code, out, _ = cli("inspect", data, "--pages", "--html")
    assert code == 0
    assert titles(parsed(out))[1:] == ["file", "columns", "pages"]
    code, out, _ = cli("inspect", evil, "--html")
    assert code == 0
    assert titles(parsed(out))[1:] == ["tables"]


def test_a_query_is_a_page(cli: Run, evil: Path) -> None:
    file = evil / "report.HTML"
    literal = EVIL.replace("'", "''")
    query = f"SELECT *\nFROM n WHERE p = '{literal}'"
    code, out, err = cli("explain", query, evil, "--html", file)
    assert (code, out, err) == (0, "", "")
    page = file.read_text(encoding="utf-8")
    tree = parsed(page)
    assert next(tree.iter("pre")).text == query
    assert next(tree.iter("svg")).attrib["aria-label"] == "1 of 3"
    code, out, _ = cli("explain", "SELECT 1", evil, "--html")
    assert code == 0
    assert "no Lance table is read" in out


def test_a_page_never_takes_the_place_of_a_table(cli: Run, evil: Path) -> None:
    code, out, err = cli("inspect", "--html", evil / "t.lance", evil / "n")
    assert (code, out) == (2, "")
    assert "the name of the file must end with .html" in err
    assert lance_df.dataset(evil / "t.lance").count_rows() == 3
    code, _, err = cli("inspect", evil / "t.lance", "--html", "--format", "json")
    assert code == 2
    assert "not allowed with" in err


def test_errors_leave_a_page_as_it_was(cli: Run, evil: Path) -> None:
    file = evil / "report.html"
    file.write_text("before")
    code, _, err = cli("explain", "SELECT nothing FROM n", evil, "--html", file)
    assert code == 1
    assert "nothing" in err
    assert file.read_text() == "before"
    code, _, err = cli("inspect", evil / "n", "--html", evil / "missing" / "x.html")
    assert code == 1
    assert "No such file or directory" in err
