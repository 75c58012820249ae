"""Functions of JSON columns: the same values as pylance's, in scans, changes and sessions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.compute.json_paths import parse_path, selected
from lance_df.errors import InvalidInputError, UnsupportedFeatureError

OBJECT = (
    '{"a": 1, "f": 2.5, "half": -2.5, "s": "text", "t": true, "n": null, "whole": 2.0, "tiny": 1e-7,'
    ' "big": 18446744073709551615, "yes": "YES", "no": "false", "35": "35", "float text": "2.5",'
    ' "k.d": 5, "é": "ü", "items": [1, 2.5, "x", {"k": 1}, "1", null, true, [1]],'
    ' "o": {"l": [1], "m": {"k": 2}}, "rows": [{"k": 1}, {"k": 2}], "nested": [[1, 2], [3]],'
    ' "0": "zero", "q\\"": "quote"}'
)
DOCUMENTS = [
    json.loads(OBJECT),
    [10, 20, {"a": 3}],
    "text",
    5,
    None,
    True,
    {},
    [],
]
KEYS = ["a", "f", "half", "s", "t", "n", "whole", "tiny", "yes", "no", "35", "float text", "o", "0", "00"]
KEYS += ["1", "+1", "-1", "missing", "A", "k.d", "big"]
PATHS = ["", "$", "a", "$.a", ".a", "$ .a", " $.a ", "$:a", '$."k.d"', '$["k.d"]', '["a"]', '$[ "a" ]', "$.é"]
PATHS += ["$.k.d", "$.items", "$.items[0]", "$.items [0]", "$.items[ 3 ].k", "$.items[last]", "$.items[-1]"]
PATHS += ["$.items[last - 1]", "$.items[last-100]", "$.items[0, 2]", "$.items[0, 0]", "$.items[5 to 1]"]
PATHS += ["$.items[1 to last]", "$.items[last - 1 to last]", "$.items[99, 0]", "$.items[+1]", "$.items[*]"]
PATHS += ["$.items[*].k", "$.rows.k", "$.rows[*].k", "$.o.*", "$.*", "$.*[*]", "$.o.l.*", "$.a[*]", "$.a[0]"]
PATHS += ["$[0]", "$[*]", "$[*].a", "$[*][*]", "$.nested[1]", "$.nested[*]", "$.0", '$."q\\""']
WRONG_PATHS = [
    "$.",
    "$..k",
    "$[",
    "$.a.",
    "$.b. c",
    "$a",
    "$$",
    "$.items[a]",
    "$.items[]",
    "$.items[0",
    "$.a]",
]
WRONG_PATHS += ["$.a-x", "$.a x", "@.a", "$.items[1.5]", "$.items[0:2]", "$['a']", "lax $.a", "$.a.size()"]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Each document as a row of its own, and a NULL, in both libraries."""
    folder = tmp_path_factory.mktemp("json")
    texts = [*map(json.dumps, DOCUMENTS), None]
    table = pa.table({"id": range(len(texts)), "j": pa.array(texts, pa.json_())})
    return (
        lance.write_dataset(table, str(folder / "theirs.lance")),
        lance_df.write_dataset(table, folder / "ours.lance"),
    )


def values(dataset: Any, expression: str, row: int) -> Any:
    """Return the value of an expression for a row, or that there is none, and its type."""
    try:
        column = dataset.to_table(columns={"x": expression}, filter=f"id = {row}").column("x")
    except (ValueError, OSError, pa.ArrowException):
        return "error"
    return column.to_pylist(), column.type


@pytest.mark.parametrize("function", ["json_get_string", "json_get_int", "json_get_float", "json_get_bool"])
def test_values_of_keys(both: tuple[Any, Any], function: str) -> None:
    for key in KEYS:
        for row in (0, 1, 8):
            theirs, ours = (values(each, f"{function}(j, '{key}')", row) for each in both)
            assert ours == theirs, (key, row)


@pytest.mark.parametrize("function", ["json_extract", "json_exists", "json_array_length"])
def test_values_of_paths(both: tuple[Any, Any], function: str) -> None:
    for path in PATHS:
        expression = f"{function}(j, '{path}')"
        theirs, ours = (each.to_table(columns={"x": expression}).column("x") for each in both)
        assert ours.to_pylist() == theirs.to_pylist(), path
        assert ours.type == theirs.type


def test_documents_of_keys(both: tuple[Any, Any]) -> None:
    for key in KEYS:
        expression = f"json_get(j, '{key}')"
        theirs, ours = (each.to_table(columns={"x": expression}).column("x") for each in both)
        assert ours == theirs, key


def test_items_of_arrays(both: tuple[Any, Any]) -> None:
    for path in (
        "$.items",
        "$.rows",
        "$.nested",
        "$.nested[*]",
        "$.s",
        "$.a",
        "$.missing",
        "$",
        "$.items[*]",
    ):
        for item in ("1", "x", '"x"', "2.5", "2.50", "null", "true", '{"k":1}', '{"k": 1}', "[1]", "10", ""):
            expression = f"json_array_contains(j, '{path}', '{item}')"
            theirs, ours = (each.to_table(columns={"x": expression}).column("x") for each in both)
            assert ours.to_pylist() == theirs.to_pylist(), (path, item)


@pytest.mark.parametrize("text", ["+5", "-5", "1e3", ".5", "5.", "-2.5", "2.4999", "-0", "1e30", "NaN"])
@pytest.mark.parametrize("function", ["json_get_int", "json_get_float", "json_get_bool"])
def test_numbers_in_texts(tmp_path: Path, function: str, text: str) -> None:
    table = pa.table({"id": [0], "j": pa.array([json.dumps({"a": text})], pa.json_())})
    theirs = values(lance.write_dataset(table, str(tmp_path / "theirs")), f"{function}(j, 'a')", 0)
    ours = values(lance_df.write_dataset(table, tmp_path / "ours"), f"{function}(j, 'a')", 0)
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("path", WRONG_PATHS)
def test_wrong_paths(both: tuple[Any, Any], path: str) -> None:
    expression = f"json_extract(j, '{path.replace(chr(39), chr(39) * 2)}')"
    with pytest.raises((ValueError, OSError)):
        both[0].to_table(columns={"x": expression})
    with pytest.raises(InvalidInputError, match="is not a valid JSON path: unexpected"):
        both[1].to_table(columns={"x": expression})


def test_paths_that_are_not_supported() -> None:
    for path, what in (("$.a ? (@ > 1)", "a filter"), ("$.**", r"a \*\*")):
        with pytest.raises(UnsupportedFeatureError, match=what):
            parse_path(path)


def test_errors_name_the_value(both: tuple[Any, Any]) -> None:
    with pytest.raises(
        InvalidInputError, match=r"^the JSON value \"text\" of key 's' cannot be converted to int64$"
    ):
        both[1].count_rows("json_get_int(j, 's') > 3")


def test_steps() -> None:
    steps = parse_path("$.rows[*].k")
    assert selected(DOCUMENTS[0], steps) == [1, 2]
    assert selected(DOCUMENTS[1], steps) == []


def test_filters_of_scans_and_changes(tmp_path: Path) -> None:
    texts = [
        json.dumps({"user": {"name": name, "age": age}}) for name, age in (("a", 30), ("b", 20), ("c", 40))
    ]
    dataset = lance_df.write_dataset(
        pa.table({"id": [1, 2, 3], "j": pa.array(texts, pa.json_())}), tmp_path / "t.lance"
    )
    is_old = "json_get_int(json_get(j, 'user'), 'age') > 25"
    assert dataset.count_rows(is_old) == 2
    assert dataset.to_table(filter=is_old, columns=["id"]).column("id").to_pylist() == [1, 3]
    ctx = lance_df.connect(tmp_path)
    query = "SELECT json_get_string(json_get(j, 'user'), 'name') AS name FROM t GROUP BY name ORDER BY name"
    assert ctx.sql(query).to_pylist() == [{"name": name} for name in "abc"]
    deletion = "DELETE FROM t WHERE json_extract(j, '$.user.name') = '\"a\"'"
    assert ctx.sql(deletion).to_pylist() == [{"count": 1}]
    dataset = lance_df.dataset(tmp_path / "t.lance")
    assert dataset.update({"id": "json_get_int(json_get(j, 'user'), 'age')"})["num_rows_updated"] == 2
    assert sorted(dataset.to_table().column("id").to_pylist()) == [20, 40]
    dataset.delete("json_exists(j, '$.user')")
    assert dataset.count_rows() == 0


@pytest.mark.parametrize(
    "function", ["json_get_float", "json_get_string", "json_get", "json_extract", "json_exists"]
)
def test_numbers_that_json_has_not(tmp_path: Path, function: str) -> None:
    documents = ['{"a": NaN}', '{"a": Infinity}', '{"a": -1e400}', '{"a": [NaN, 1]}', "NaN"]
    stored = pa.ExtensionArray.from_storage(pa.json_(), pa.array(documents))
    lance.write_dataset(pa.table({"id": range(5), "j": stored}), tmp_path / "t")
    key = "$.a" if function in ("json_extract", "json_exists") else "a"
    others = "id <> 3" if function in ("json_get_float", "json_get_string") else "true"
    ours, theirs = (
        library.dataset(tmp_path / "t").to_table({"x": f"{function}(j, '{key}')"}, filter=others)["x"]
        for library in (lance_df, lance)
    )
    assert str(ours.to_pylist()) == str(theirs.to_pylist())
    assert ours.type == theirs.type
