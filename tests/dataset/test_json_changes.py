"""JSON columns in updates and filters: texts are encoded, and never compared with what is stored."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "text": ['{"s": 1}', "[2]", None],
        "raw": [b"\x00", None, b"{}"],
        "doc": pa.array(['{"a": 1}', None, '"x"'], pa.json_()),
        "other": pa.array(["1", "[]", None], pa.json_()),
    }
)


@pytest.fixture(params=["2.0", "2.1", "2.2", "namespace"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    if request.param == "namespace":
        namespace = lance_df.PartitionedNamespace.create(tmp_path / "t", ROWS.schema, ["bucket(id, 2)"])
        namespace.append(ROWS)
        return namespace
    return lance_df.write_dataset(ROWS, tmp_path / "t.lance", data_storage_version=request.param)


def documents(table: object) -> list[str | None]:
    rows = table.to_table()  # type: ignore[attr-defined]
    assert rows.schema.field("doc").type == pa.json_()
    values = {row["id"]: row["doc"] for row in rows.to_pylist()}
    if isinstance(table, lance_df.LanceDataset):
        theirs = lance.dataset(table.uri).to_table().to_pylist()
        assert {row["id"]: row["doc"] for row in theirs} == values
    return [values[key] for key in sorted(values)]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('\'{"z": [1, "ü"]}\'', ['{"z":[1,"ü"]}'] * 3),
        ("text", ['{"s":1}', "[2]", None]),
        ("concat('[', id, ']')", ["[1]", "[2]", "[3]"]),
        ("other", ["1", "[]", None]),
        ("json_get(doc, 'a')", ["1", None, None]),
        ("NULL", [None, None, None]),
    ],
)
def test_updates_of_json(table: object, expression: str, expected: list[str | None]) -> None:
    table.update({"doc": expression})  # type: ignore[attr-defined]
    assert documents(table) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("'{bad'", "column 'doc' holds JSON"),
        ("5", "column 'doc' holds JSON; expected JSON text or the value of a JSON column, got int64"),
        ("raw", "column 'doc' holds JSON"),
        ("X'7b7d'", "column 'doc' holds JSON"),
    ],
)
def test_values_that_are_no_json_change_nothing(table: object, expression: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        table.update({"doc": expression}, where="id <> 2")  # type: ignore[attr-defined]
    assert documents(table) == ['{"a":1}', None, '"x"']


def test_json_within_other_columns_is_not_computed(tmp_path: Path) -> None:
    inner = pa.json_()
    rows = pa.table(
        {
            "id": [1],
            "of_struct": pa.StructArray.from_arrays([pa.array(["1"], inner)], names=["n"]),
            "of_list": pa.ListArray.from_arrays([0, 1], pa.array(["2"], inner)),
        }
    )
    table = lance_df.write_dataset(rows, tmp_path / "t.lance")
    for name, expression in (("of_struct", "named_struct('n', '[7]')"), ("of_list", "['3']")):
        with pytest.raises(UnsupportedFeatureError, match=f"'{name}' has JSON in a nested field"):
            table.update({name: expression})
    table.update({"id": "id + 1"})
    assert table.to_table().to_pylist() == [{"id": 2, "of_struct": {"n": "1"}, "of_list": ["2"]}]


@pytest.mark.parametrize(
    "condition",
    [
        *("doc = '\"x\"'", "'\"x\"' = doc", "doc <> '\"x\"'", "doc IN ('1', '2')", "doc > 'a'"),
        *("doc BETWEEN 'a' AND 'z'", "id = 1 OR NOT (doc = '1')", "doc IS DISTINCT FROM '1'"),
    ],
)
def test_json_is_not_compared_with_text(table: object, condition: str) -> None:
    for call in (
        lambda: table.to_table(filter=condition),  # type: ignore[attr-defined]
        lambda: table.count_rows(condition),  # type: ignore[attr-defined]
        lambda: table.delete(condition),  # type: ignore[attr-defined]
        lambda: table.update({"id": "0"}, where=condition),  # type: ignore[attr-defined]
    ):
        with pytest.raises(InvalidInputError, match=r"column 'doc' holds JSON.*json_extract\(doc, '\$'\)"):
            call()
    assert documents(table) == ['{"a":1}', None, '"x"']


def test_expressions_of_pyarrow(table: object) -> None:
    with pytest.raises(InvalidInputError, match="column 'doc' holds JSON"):
        table.to_table(filter=pc.field("doc") == '"x"')  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("doc IS NULL", [2]),
        ("doc = other", []),
        ("json_extract(doc, '$') = '\"x\"'", [3]),
        ("json_get_int(doc, 'a') = 1", [1]),
        ("text = '[2]'", [2]),
    ],
)
def test_other_conditions_on_json(table: object, condition: str, expected: list[int]) -> None:
    assert table.to_table(filter=condition)["id"].to_pylist() == expected  # type: ignore[attr-defined]


_NO_JSON = [
    *("doc <> text", "text = doc", "doc <> concat('1', '')", "doc <> CAST('1' AS VARCHAR)", "doc IN (text)"),
    *(
        "doc NOT LIKE '1'",
        "nullif(doc, '1') IS NOT NULL",
        "greatest(doc, '1') = '1'",
        "doc <> X'31'",
        "doc <> raw",
    ),
    *("CASE doc WHEN '1' THEN false ELSE true END", "CASE WHEN id > 0 THEN doc END <> '1'"),
    *("json_get(doc, 'a') <> '1'", "CAST(doc AS VARCHAR) <> '1'"),
]


@pytest.mark.parametrize("condition", _NO_JSON)
def test_json_is_compared_with_json_only(table: object, condition: str) -> None:
    for call in (
        lambda: table.to_table(filter=condition),  # type: ignore[attr-defined]
        lambda: table.delete(condition),  # type: ignore[attr-defined]
        lambda: table.update({"id": f"CASE WHEN {condition} THEN 0 ELSE 1 END"}),  # type: ignore[attr-defined]
    ):
        with pytest.raises(InvalidInputError, match=r"column 'doc' holds JSON.*compared only with JSON"):
            call()
    assert documents(table) == ['{"a":1}', None, '"x"']


@pytest.mark.parametrize("condition", ["target.doc <> '1'", "source.doc <> source.text"])
def test_json_in_conditions_of_merges(tmp_path: Path, condition: str) -> None:
    rows = ROWS.select(["id", "text", "doc"])
    table = lance_df.write_dataset(rows, tmp_path / "t.lance")
    with pytest.raises(InvalidInputError, match=r"\.doc' holds JSON"):
        table.merge_insert("id").when_matched_update_all(condition).execute(rows)
    merged = table.merge_insert("id").when_matched_update_all("target.doc = source.doc").execute(rows)
    assert merged["num_updated_rows"] == 2


def test_columns_in_expressions_of_pyarrow(table: object) -> None:
    with pytest.raises(InvalidInputError, match="column 'doc' holds JSON"):
        table.to_table(filter=pc.field("text") != pc.field("doc"))  # type: ignore[attr-defined]
