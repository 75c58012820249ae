"""Indices of tables with stable row ids stay valid for rows that move, whichever library moves them.

pylance made them, of all its kinds. A row that an index lists twice, or not at all, is a wrong answer of its
queries: full-text search returns it twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.indices import IndexConfig

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POINT = pa.struct([pa.field("x", pa.float64(), nullable=False), pa.field("y", pa.float64(), nullable=False)])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("z", pa.int64()),
        pa.field("n", pa.int64()),
        pa.field("b", pa.int64()),
        pa.field("o", pa.int64()),
        pa.field("s", pa.string()),
        pa.field("g", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("v", pa.list_(pa.float32(), 4)),
        pa.field("j", pa.string(), metadata={"ARROW:extension:name": "arrow.json"}),
        pa.field(
            "p",
            POINT,
            metadata={"ARROW:extension:name": "geoarrow.point", "ARROW:extension:metadata": "{}"},
        ),
    ]
)
SQUARE = "st_intersects(p, st_geomfromtext('POLYGON((1 1,1 5,5 5,5 1,1 1))'))"
Row = dict[str, Any]


def row(number: int) -> Row:
    words = ["ant", "bee", "cat", "dog"]
    return {
        "id": number,
        "z": number,
        "n": number * 7 % 6,
        "b": number * 11 % 5,
        "o": number // 9,
        "s": f"{words[number % 3]} {words[number % 4]}",
        "g": "abcabacbcca"[number % 8 :],
        "tags": [words[number % 4], words[number % 3]],
        "v": [float(number * factor % 9) for factor in (1, 2, 4, 5)],
        "j": f'{{"x": {number % 7}}}',
        "p": {"x": number * 3 % 10 + 0.5, "y": number * 7 % 10 + 0.5},
    }


def rows(start: int, stop: int) -> pa.Table:
    return pa.Table.from_pylist([row(number) for number in range(start, stop)], schema=SCHEMA)


INDICES: dict[str, Callable[[lance.LanceDataset], object]] = {
    "BITMAP": lambda data: data.create_scalar_index("b", "BITMAP"),
    "FM": lambda data: data.create_scalar_index("s", IndexConfig("fm", {})),
    "INVERTED 1": lambda data: data.create_scalar_index("s", "INVERTED", format_version="1"),
    "INVERTED 2": lambda data: data.create_scalar_index("s", "INVERTED", format_version="2"),
    "IVF_FLAT": lambda data: data.create_index("v", "IVF_FLAT", num_partitions=2),
    "IVF_HNSW_SQ": lambda data: data.create_index("v", "IVF_HNSW_SQ", num_partitions=2),
    "JSON": lambda data: data.create_scalar_index(
        "j", IndexConfig("json", {"target_index_type": "bitmap", "path": "$.x"})
    ),
    "LABEL_LIST": lambda data: data.create_scalar_index("tags", "LABEL_LIST"),
    "MINHASH": lambda data: data.create_scalar_index("s", IndexConfig("minhashlsh", {})),
    "NGRAM": lambda data: data.create_scalar_index("g", "NGRAM"),
    "RTREE": lambda data: data.create_scalar_index("p", "RTREE"),
}


def append(data: Any, start: int, stop: int, library: Any = lance_df) -> None:
    library.write_dataset(rows(start, stop), data.uri, mode="append", max_rows_per_file=20)


def compact_after_deletion(data: Any) -> None:
    data.delete("id % 9 = 1")
    data.optimize.compact_files()


def compact_beside_others(data: Any) -> None:
    append(data, 60, 100)
    data.optimize.compact_files()


CHANGES: dict[str, Callable[[Any], object]] = {
    "compaction": lambda data: data.optimize.compact_files(),
    "compaction of deletions": compact_after_deletion,
    "update of another column": lambda data: data.update({"z": "z + 1"}, where="id < 5"),
    "update of whole fragments": lambda data: data.update({"z": "z + 1"}, where="id < 25"),
}


def indexed(uri: str, kind: str) -> None:
    data = lance.write_dataset(rows(0, 60), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    INDICES[kind](data)


def coverage(uri: str) -> list[set[int]]:
    described = lance.dataset(uri).describe_indices()
    return [set(segment.fragment_ids) for index in described for segment in index.segments]


@pytest.mark.parametrize("kind", INDICES)
def test_coverage_is_that_of_pylance(tmp_path: Path, kind: str) -> None:
    for name, change in CHANGES.items():
        uris = [str(tmp_path / f"{name} {library.__name__}") for library in (lance, lance_df)]
        for uri, library in zip(uris, (lance, lance_df), strict=True):
            indexed(uri, kind)
            change(library.dataset(uri))
        assert coverage(uris[1]) == coverage(uris[0]), name


@pytest.mark.parametrize("kind", sorted(INDICES.keys() - {"BITMAP", "FM"}))
def test_rows_of_different_segments_are_not_joined(tmp_path: Path, kind: str) -> None:
    """No segment would cover the new fragment; lance_df merges bitmaps and the like instead."""
    uri = str(tmp_path / "t")
    indexed(uri, kind)
    append(lance.dataset(uri), 60, 100)
    segments = 1
    if kind not in {"JSON", "MINHASH"}:  # pylance builds no second segment of these
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
        segments = 2
    assert len(coverage(uri)) == segments
    lance_df.dataset(uri).optimize.compact_files()
    assert coverage(uri) == [{5}, {6}][:segments]


def search(uri: str) -> list[int]:
    query = {"query": "ant", "columns": ["s"]}
    scanner = lance.dataset(uri).scanner(full_text_query=query, columns=["id", "_score"])
    return sorted(scanner.to_table()["id"].to_pylist())


@pytest.mark.parametrize("change", [*CHANGES.values(), compact_beside_others], ids=[*CHANGES, "some"])
def test_full_text_search_returns_a_row_once(tmp_path: Path, change: Callable[[Any], object]) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, "INVERTED 2")
    append(lance.dataset(uri), 100, 140)
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    change(lance_df.dataset(uri))
    data = lance_df.dataset(uri).to_table(columns=["id", "s"]).to_pylist()
    expected = sorted(each["id"] for each in data if "ant" in each["s"])
    assert search(uri) == expected
    for number in (0, None):
        lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=number)
        assert search(uri) == expected


def test_updates_that_an_index_cannot_cover(tmp_path: Path) -> None:
    """The indexed column has new values, or some of the rows were not covered, or are new."""
    uri = str(tmp_path / "t")
    indexed(uri, "INVERTED 2")
    INDICES["RTREE"](lance.dataset(uri))
    lance_df.dataset(uri).update({"s": "'ant'"}, where="id = 3")
    assert coverage(uri) == [{0, 1, 2, 3}, {0, 1, 2}]
    lance_df.dataset(uri).update({"z": "1"}, where="id IN (3, 30)")
    assert coverage(uri) == [{0, 1, 2, 3, 4}, {0, 1, 2}]
    merge = lance_df.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(rows(50, 70))
    assert coverage(uri) == [{0, 1, 2, 3, 4}, {0, 1, 2}]


def test_an_operation_that_names_no_fields(tmp_path: Path) -> None:
    """It may have assigned any of them."""
    uri = str(tmp_path / "t")
    indexed(uri, "INVERTED 2")
    version = lance_df.dataset(uri).version
    lance_df.dataset(uri).update({"z": "1"}, where="id = 3")
    operation = lance_df.dataset(uri).read_transaction(version + 1).operation
    assert coverage(uri) == [{0, 1, 2, 3}]
    lance_df.dataset(uri, version=version).restore()
    operation.fields_for_preserving_frag_bitmap = []
    lance_df.LanceDataset.commit(uri, operation, read_version=version + 2)
    assert coverage(uri) == [{0, 1, 2}]


def test_fields_of_a_struct(tmp_path: Path) -> None:
    """An index on a field is not on the fields beside it, but on all that hold its values."""
    uri = str(tmp_path / "t")
    data = pa.table({"id": range(9), "a": [{"b": n, "c": n} for n in range(9)], "z": range(9)})
    lance.write_dataset(data, uri, enable_stable_row_ids=True).create_scalar_index("a.b", "BITMAP")
    lance_df.dataset(uri).update({"z": "1"}, where="id = 3")
    assert coverage(uri) == [{0, 1}]
    lance_df.dataset(uri).update({"a": "named_struct('b', 77, 'c', 1)"}, where="id = 4")
    assert coverage(uri) == [{0, 1}]
    assert lance_df.dataset(uri).to_table(filter="a.b = 77")["id"].to_pylist() == [4]
    assert lance_df.dataset(uri).to_table(filter="a.b = 4")["id"].to_pylist() == []


@pytest.mark.engine
def test_sql_changes_of_other_columns(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    indexed(uri, "INVERTED 2")
    session = lance_df.connect()
    lance_df.register(session, "t", uri)
    session.sql("UPDATE t SET z = 1 WHERE id = 3").collect()
    merge = "MERGE INTO t USING (SELECT {} AS k) AS u ON t.id = u.k WHEN MATCHED THEN UPDATE SET z = 2"
    session.sql(merge.format(4)).collect()
    assert coverage(uri) == [{0, 1, 2, 3, 4}]
    session.sql(f"{merge.format(200)} WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, 'ant')").collect()
    assert coverage(uri) == [{0, 1, 2, 3, 4}]
    assert 200 in search(uri)


FILTERS: dict[str, Callable[[Row], bool]] = {
    "n = 3": lambda row: row["n"] == 3,
    "b = 2": lambda row: row["b"] == 2,
    "o < 7": lambda row: row["o"] < 7,
    "n = 1 AND b > 2": lambda row: row["n"] == 1 and row["b"] > 2,
    "contains(g, 'cba')": lambda row: "cba" in row["g"],
    "array_has(tags, 'ant')": lambda row: "ant" in row["tags"],
    SQUARE: lambda row: 1 <= row["p"]["x"] <= 5 and 1 <= row["p"]["y"] <= 5,
}
# not of `s` and `b`: pylance's own inverted indices and bitmaps return rows for former values, too
ASSIGNED = {
    "z": ("7", 7),
    "n": ("3", 3),
    "o": ("5", 5),
    "g": ("'cbacb'", "cbacb"),
    "tags": ("make_array('ant', 'bee')", ["ant", "bee"]),
}
libraries = st.sampled_from([lance, lance_df])
fractions = st.floats(0, 1)
# rows of one batch, as no segment covers a fragment with rows of several
updates = st.tuples(
    st.just("update"), libraries, st.sampled_from(sorted(ASSIGNED)), fractions, fractions, fractions
)
steps = st.one_of(
    st.tuples(st.just("append"), libraries, st.integers(1, 30)),
    st.tuples(st.just("delete"), libraries, st.integers(5, 20), st.integers(0, 19)),
    updates,
    updates,
    st.tuples(st.just("compact"), libraries, st.sampled_from([50, 90, 10_000])),
    st.tuples(st.just("compact"), st.just(lance_df), st.sampled_from([50, 90, 10_000])),
    st.tuples(st.just("optimize"), libraries, st.sampled_from([0, None])),
)


def apply(uri: str, model: dict[int, Row], batches: list[range], step: tuple[Any, ...]) -> None:
    name, library, *arguments = step
    data = library.dataset(uri)
    match name, arguments:
        case "append", [num_rows]:
            batches.append(range(batches[-1].stop, batches[-1].stop + num_rows))
            append(data, batches[-1].start, batches[-1].stop, library)
            model |= {number: row(number) for number in batches[-1]}
        case "delete", [divisor, rest]:
            data.delete(f"id % {divisor} = {rest}")
            for number in [number for number in model if number % divisor == rest]:
                del model[number]
        case "update", [column, *parts]:
            batch = batches[int(parts[0] * (len(batches) - 1))]
            low, high = sorted(batch.start + int(part * len(batch)) for part in parts[1:])
            sql, value = ASSIGNED[column]
            data.update({column: sql}, where=f"id >= {low} AND id < {high}")
            model |= {n: model[n] | {column: value} for n in range(low, high) if n in model}
        case "compact", [target]:
            data.optimize.compact_files(target_rows_per_fragment=target)
        case "optimize", [number]:
            options = {} if number is None else {"num_indices_to_merge": number}
            data.optimize.optimize_indices(**options)


def check(uri: str, model: dict[int, Row]) -> None:
    theirs, ours = lance.dataset(uri), lance_df.dataset(uri)
    assert sorted(ours.to_table(columns=["id"])["id"].to_pylist()) == sorted(model)
    for text, matches in FILTERS.items():
        expected = sorted(number for number, each in model.items() if matches(each))
        assert sorted(theirs.to_table(["id"], text)["id"].to_pylist()) == expected, text
        if text != SQUARE:
            assert sorted(ours.to_table(["id"], text)["id"].to_pylist()) == expected, text
            assert ours.count_rows(text) == len(expected), text
    assert search(uri) == sorted(number for number, each in model.items() if "ant" in each["s"])
    nearest = {"column": "v", "q": [1.0] * 4, "k": 1000, "nprobes": 10}
    neighbours = theirs.to_table(["id", "_distance"], nearest=nearest).to_pylist()
    distances = {number: sum((x - 1) ** 2 for x in each["v"]) for number, each in model.items()}
    assert len(neighbours) == len(model)
    assert {each["id"]: each["_distance"] for each in neighbours} == distances


@settings(max_examples=8)
@given(history=st.lists(steps, min_size=4, max_size=8))
def test_answers_after_random_histories(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[Any, ...]]
) -> None:
    uri = str(tmp_path_factory.mktemp("t"))
    data = lance.write_dataset(rows(0, 60), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    data.create_scalar_index("n", "BTREE")
    data.create_scalar_index("o", "ZONEMAP")
    for kind in ("BITMAP", "INVERTED 2", "IVF_FLAT", "LABEL_LIST", "NGRAM", "RTREE"):
        INDICES[kind](lance.dataset(uri))
    model, batches = {number: row(number) for number in range(60)}, [range(60)]
    # pylance lists rows twice if it indexes again what an index already holds
    for step in [*history, ("optimize", lance, 0), ("optimize", lance, None)]:
        apply(uri, model, batches, step)
        check(uri, model)
    lance.dataset(uri).validate()
