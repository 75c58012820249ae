"""What differs from pylance: each row of the table in docs/pylance.md, shown in both libraries.

`python tests/dataset/test_pylance_differences.py` writes the rows into the guide.
"""

from __future__ import annotations

import datetime as dt
import decimal
import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import datafusion
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "pylance.md"
ROWS = pa.table({"a": range(100), "s": [str(number) for number in range(100)]})


@dataclass(frozen=True)
class Difference:
    """A row of the table, and the test that shows both sides."""

    what: str
    theirs: str
    ours: str
    shows: Callable[[Path], None]


def both(folder: Path, data: pa.Table = ROWS, **options: Any) -> tuple[Any, Any]:
    """Return the same table, written by pylance and by us."""
    return (
        lance.write_dataset(data, str(folder / "theirs"), **options),
        lance_df.write_dataset(data, folder / "ours", **options),
    )


def vectors(folder: Path) -> None:
    values = pa.FixedSizeListArray.from_arrays(pa.array(range(40), pa.float32()), 4)
    theirs, ours = both(folder, pa.table({"v": values}))
    query = {"column": "v", "q": [0.0, 1.0, 2.0, 3.0], "k": 1}
    assert theirs.to_table(nearest=query).num_rows == 1
    with pytest.raises(lance_df.UnsupportedFeatureError):
        ours.to_table(nearest=query)
    theirs.create_index("v", "IVF_FLAT", num_partitions=1)
    with pytest.raises(lance_df.UnsupportedFeatureError):
        ours.create_index("v", "IVF_FLAT", num_partitions=1)


def scalar_indices(folder: Path) -> None:
    theirs, ours = both(folder)
    for dataset in (theirs, ours):
        for kind in ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"):
            dataset.create_scalar_index("a", kind)
    theirs.create_scalar_index("s", "NGRAM")
    with pytest.raises(lance_df.UnsupportedFeatureError):
        ours.create_scalar_index("s", "NGRAM")


def wrong_file_versions(folder: Path) -> None:
    from manifest_edits import edit_manifest  # which only pytest looks up

    for dataset in both(folder, data_storage_version="2.0"):
        edit_manifest(dataset.uri, lambda manifest: setattr(manifest.data_format, "version", "0.1"))
    for library, name in ((lance, "theirs"), (lance_df, "ours")):
        assert library.dataset(str(folder / name)).data_storage_version == "0.1"
    with pytest.raises(OSError, match="mixture of file versions"):
        lance.write_dataset(ROWS, str(folder / "theirs"), mode="append")
    lance.dataset(str(folder / "theirs")).delete("false")
    lance_df.write_dataset(ROWS, folder / "ours", mode="append")
    for name in ("theirs", "ours"):
        assert lance.dataset(str(folder / name)).data_storage_version == "2.0"


def small_zones(folder: Path) -> None:
    num_bytes: list[int] = []
    for library, dataset in zip((lance, lance_df), both(folder, pa.table({"a": range(65536)})), strict=True):
        for rows in (64, 16384):
            config = library.indices.IndexConfig(index_type="zonemap", parameters={"rows_per_zone": rows})
            dataset.create_scalar_index("a", config)
            scanner = dataset.scanner(
                filter="a = 7", scan_stats_callback=lambda scan: num_bytes.append(scan.bytes_read)
            )
            assert scanner.to_table().num_rows == 1
    theirs, ours = num_bytes[:2], num_bytes[2:]
    assert theirs[0] < theirs[1] < ours[0] == ours[1]


def memory_pools(folder: Path) -> None:
    theirs, ours = both(folder, pa.table({"a": range(100_000)}))
    with mock.patch.dict(os.environ, {"LANCE_MEM_POOL_SIZE": "1024"}):
        with pytest.raises(OSError, match="Resources exhausted"):
            theirs.create_scalar_index("a", "BTREE")
        ours.create_scalar_index("a", "BTREE")


def memory(folder: Path) -> None:
    del folder
    uri = f"memory://{uuid.uuid4().hex}"
    for library in (lance, lance_df):
        first, second = (library.write_dataset(ROWS.slice(0, rows), uri) for rows in (1, 2))
        assert (first.count_rows(), second.count_rows()) == (1, 2)
    with pytest.raises(ValueError, match="not found"):
        lance.dataset(uri)
    assert lance_df.dataset(uri).count_rows() == 2


def pyarrow_filters(folder: Path) -> None:
    theirs, ours = both(folder)
    condition = pc.utf8_length(pc.field("s")) == 2
    with pytest.raises(pa.ArrowNotImplementedError, match="Substrait"):
        theirs.to_table(filter=condition)
    assert ours.to_table(filter=condition).num_rows == ours.count_rows(condition) == 90
    assert ours.delete(condition) == {"num_deleted_rows": 90}


def positions_in_filters(folder: Path) -> None:
    theirs, ours = both(folder, pa.table({"f": [1.0, 7.0, float("nan")]}))
    assert theirs.to_table(filter=pc.field(0) > 5).num_rows == 2
    assert ours.to_table(filter=pc.field("f") > 5).num_rows == 2
    assert ours.to_table(filter=pc.field(0) > 5).num_rows == 1


def zeros_in_lists(folder: Path) -> None:
    rows = pa.table({"f": pa.array([0.0, -0.0, 1.5], pa.float32()), "d": [0.0, -0.0, 1.5]})
    theirs, ours = both(folder, rows)
    for dataset in (theirs, ours):
        assert dataset.count_rows("f = 0.0 OR f = 1.5") == 3
        assert dataset.count_rows("d IN (0.0, 1.5)") == 3
    for condition in ("f IN (0.0, 1.5)", "d IN (0.0, 1.5, 2.5, 3.5)"):
        assert theirs.count_rows(condition) == 3
        memory = datafusion.SessionContext()
        memory.register_record_batches("t", [rows.to_batches()])
        (count,) = memory.sql(f"SELECT count(*) AS n FROM t WHERE {condition}").to_pylist()
        assert ours.count_rows(condition) == count["n"] == 2


def other_file_versions(folder: Path) -> None:
    theirs, ours = both(folder, max_rows_per_file=50, data_storage_version="2.2")
    assert theirs.optimize.compact_files(data_storage_version="2.1").fragments_added == 1
    with pytest.raises(lance_df.UnsupportedFeatureError):
        ours.optimize.compact_files(data_storage_version="2.1")


def fragments_by_filter(folder: Path) -> None:
    theirs, ours = both(folder, max_rows_per_file=10)
    ours.create_scalar_index("a", "ZONEMAP")
    with pytest.raises(ValueError, match="filter"):
        theirs.get_fragments(pc.field("a") < 5)
    assert [fragment.fragment_id for fragment in ours.get_fragments(pc.field("a") < 5)] == [0]


def sessions(folder: Path) -> None:
    theirs, ours = both(folder)
    assert not theirs.session().is_same_as(lance.dataset(theirs.uri).session())
    assert ours.session().is_same_as(lance_df.dataset(ours.uri).session())


def plans(folder: Path) -> None:
    theirs, ours = (dataset.scanner(filter="a < 5") for dataset in both(folder))
    assert "LanceRead" in theirs.explain_plan()
    assert "metrics" in theirs.analyze_plan()
    assert "fragments: 1 of 1" in ours.explain_plan()
    assert "LanceRead: output_rows=5, rows_scanned=100" in ours.analyze_plan()


def order(folder: Path) -> None:
    theirs, ours = both(folder, max_rows_per_file=10)
    found = theirs.to_table(scan_in_order=False)
    assert sorted(found.column("a").to_pylist()) == list(range(100))
    assert ours.to_table(scan_in_order=False).equals(ROWS)


def compaction_by_bytes(folder: Path) -> None:
    values = pa.FixedSizeListArray.from_arrays(pa.array(range(4 * 2**20)), 1024)
    theirs, ours = both(folder, pa.table({"v": values}), max_rows_per_file=2048)
    options = {"target_rows_per_fragment": 100_000, "max_bytes_per_file": 1000, "batch_size": 128}
    assert theirs.optimize.compact_files(**options).fragments_added == 4
    assert ours.optimize.compact_files(**options).fragments_added == 0


def page_sizes(folder: Path) -> None:
    counts = []
    for library in (lance, lance_df):
        path = str(folder / f"{library.__name__}.lance")
        schema = pa.schema([("a", pa.int64())])
        with library.file.LanceFileWriter(path, schema, max_page_bytes=1, version="2.1") as writer:
            writer.write_batch(pa.table({"a": [1, 2, 3]}))
        counts.append(len(library.file.LanceFileReader(path).metadata().columns[0].pages))
    assert counts == [1, 3]


def json_columns(folder: Path) -> None:
    values = pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(['{"a":1}']))
    theirs, ours = both(folder, pa.table({"j": values}))
    assert ours.to_table().column("j").to_pylist() == ['{"a":1}']
    assert theirs.to_table(filter="json_get_int(j, 'a') = 1").num_rows == 1
    assert ours.to_table(filter="json_get_int(j, 'a') = 1").num_rows == 1
    filtered = "json_exists(j, '$.a ? (@ == 1)')"
    assert theirs.to_table(filter=filtered).num_rows == 1
    with pytest.raises(lance_df.UnsupportedFeatureError, match="filter"):
        ours.to_table(filter=filtered)


def json_table(*texts: str) -> pa.Table:
    return pa.table({"j": pa.ExtensionArray.from_storage(pa.json_(pa.string()), pa.array(texts))})


def json_numbers(folder: Path) -> None:
    rows = json_table('{"a": NaN}', "[Infinity]", '{"a": 1e400}')
    theirs = lance.write_dataset(rows, str(folder / "theirs"))
    shown = ['{"a":null}', "[null]", '{"a":null}']
    for library in (lance, lance_df):
        assert library.dataset(theirs.uri).to_table()["j"].to_pylist() == shown
    with pytest.raises(lance_df.InvalidInputError, match="cannot be stored as JSON"):
        lance_df.write_dataset(rows, folder / "ours")


def merges_by_json(folder: Path) -> None:
    rows = json_table('{"a": 1}', "[]")
    for library, inserted in ((lance, 2), (lance_df, 0)):
        path = str(folder / library.__name__)
        builder = library.write_dataset(rows, path).merge_insert("j").when_not_matched_insert_all()
        assert builder.execute(rows)["num_inserted_rows"] == inserted


def deep_json(folder: Path) -> None:
    for depth in (200, 250):
        rows = json_table("[" * depth + "]" * depth)
        theirs = lance.write_dataset(rows, str(folder / str(depth)))
        assert theirs.count_rows() == 1
        assert len(theirs.to_table()["j"][0].as_py()) == 2 * depth
        ours = lance_df.dataset(theirs.uri)
        if depth == 200:
            assert ours.to_table()["j"].to_pylist() == theirs.to_table()["j"].to_pylist()
            continue
        with pytest.raises(lance_df.UnsupportedFeatureError, match="deeper than 200"):
            ours.to_table()


def texts_without_utf8(folder: Path) -> None:
    stored = pa.array([b"a", b"\xff"], pa.binary())
    rows = pa.table({"s": pa.Array.from_buffers(pa.string(), 2, stored.buffers())})
    theirs = lance.write_dataset(rows, str(folder / "theirs"))
    with pytest.raises(pa.ArrowInvalid, match=r"(?i)utf"):
        theirs.to_table()
    with pytest.raises(lance_df.InvalidInputError, match="not UTF-8"):
        lance_df.write_dataset(rows, folder / "ours")


def deep_columns(folder: Path) -> None:
    kind = pa.int32()
    for _ in range(63):
        kind = pa.list_(kind)
    rows = pa.schema([("deep", kind)]).empty_table()
    theirs = lance.write_dataset(rows, str(folder / "theirs"))
    with pytest.raises(pa.ArrowInvalid, match="Recursion level"):
        theirs.to_table()
    with pytest.raises(lance_df.UnsupportedFeatureError, match="deeper than 62 levels"):
        lance_df.write_dataset(rows, folder / "ours")


def lists_of_structs_in_structs(folder: Path) -> None:
    for size in (1, 2):
        items = pa.array([{"x": each} for each in range(4 * size)])
        lists = pa.FixedSizeListArray.from_arrays(items, size)
        data = pa.table({"s": pa.StructArray.from_arrays([lists, pa.array(range(4))], ["f", "n"])})
        theirs = lance.write_dataset(data, str(folder / f"{size}"), data_storage_version="2.2")
        assert lance_df.dataset(folder / f"{size}").to_table() == data
        if size == 1:
            assert theirs.to_table() == data
        else:
            with pytest.raises(pa.ArrowInvalid, match="differing lengths"):
                theirs.to_table()
        with pytest.raises(lance_df.UnsupportedFeatureError, match=r"column 's\.f'"):
            lance_df.write_dataset(data, folder / "ours", data_storage_version="2.2")


def many_dictionary_values(folder: Path) -> None:
    parts = [
        pa.DictionaryArray.from_arrays(
            pa.array(range(100), pa.int8()), pa.array([f"{part} {number}" for number in range(100)])
        )
        for part in range(2)
    ]
    rows = pa.table({"d": pa.chunked_array(parts)})
    with pytest.raises(OSError, match=r"(?i)dictionar"):
        lance.write_dataset(rows, str(folder / "theirs"), data_storage_version="2.0")
    ours = lance_df.write_dataset(rows, folder / "ours")
    assert len(ours.get_fragments()) == 2
    assert lance.dataset(ours.uri).to_table()["d"].to_pylist() == rows["d"].to_pylist()


def names_of_indexed_columns(folder: Path) -> None:
    theirs, ours = both(folder)
    theirs.create_scalar_index("A", "BTREE")
    with pytest.raises(lance_df.ColumnNotFoundError):
        ours.create_scalar_index("A", "BTREE")


def stale_datasets(folder: Path) -> None:
    theirs, ours = both(folder)
    for library, dataset in ((lance, theirs), (lance_df, ours)):
        newest = library.dataset(dataset.uri)
        newest.delete("a = 1")
        newest.delete("a = 2")
        newest.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)
    assert theirs.delete("a = 3") == {"num_deleted_rows": 1}
    with pytest.raises(lance_df.ConflictError, match="no longer exists"):
        ours.delete("a = 3")
    assert ours.update_config({"k": "v"}) == {"k": "v"}
    assert ours.count_rows() == 98
    for mode, num_rows in (("append", 101), ("overwrite", 3)):
        stale = lance_df.dataset(ours.uri)
        newest = lance_df.dataset(ours.uri)
        newest.update_config({"k": mode})
        newest.cleanup_old_versions(older_than=dt.timedelta(0), delete_unverified=True)
        stale.insert(ROWS[:3], mode=mode)
        assert stale.count_rows() == num_rows


def logs(folder: Path) -> None:
    assert hasattr(lance, "log")
    assert not hasattr(lance_df, "log")
    lance_df.write_dataset(ROWS, folder / "t.lance")
    report = lance_df.connect(folder).explain_scan("SELECT a FROM t WHERE a < 5")
    assert report.bytes.kept > 0


def types_of_expressions(folder: Path) -> None:
    columns = {
        "u8": pa.array([200], pa.uint8()),
        "u64": pa.array([1], pa.uint64()),
        "f32": pa.array([1.5], pa.float32()),
        "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(5, 2)),
    }
    theirs, ours = both(folder, pa.table(columns))
    expressions = {"a": "u8 * 2", "b": "u64 * 2", "c": "f32 * 2.5", "d": "d + 1"}
    found, mine = theirs.to_table(expressions), ours.to_table(expressions)
    assert found.schema.types == [pa.uint8(), pa.uint64(), pa.float32(), pa.decimal128(6, 2)]
    assert found["a"].to_pylist() == [144]
    assert mine.schema.types == [pa.int64(), pa.decimal128(20, 0), pa.float64(), pa.decimal128(23, 2)]
    assert mine["a"].to_pylist() == [400]


def version_and_time(folder: Path) -> None:
    theirs, ours = both(folder)
    assert lance.dataset(theirs.uri, version=1, asof=dt.datetime(1999, 1, 1)).version == 1
    with pytest.raises(lance_df.LanceError, match="cannot be combined"):
        lance_df.dataset(ours.uri, version=1, asof=dt.datetime(2999, 1, 1))


def delta_without_row_ids(folder: Path) -> None:
    theirs, ours = both(folder)
    for dataset in (theirs, ours):
        dataset.insert(ROWS)
    assert theirs.delta(compared_against=1).get_inserted_rows().read_all().num_rows == 0
    with pytest.raises(lance_df.UnsupportedFeatureError):
        ours.delta(compared_against=1).get_inserted_rows()


def schema_of_arrow_data(folder: Path) -> None:
    schema = pa.schema([("s", pa.large_string()), ("a", pa.int32())])
    theirs, ours = both(folder, schema=schema)
    assert theirs.schema == ROWS.schema
    assert ours.schema == schema
    narrow = pa.schema([("a", pa.int64())])
    assert lance.write_dataset(ROWS, str(folder / "narrow"), narrow).schema == ROWS.schema
    with pytest.raises(lance_df.InvalidInputError, match="not have all columns"):
        lance_df.write_dataset(ROWS, folder / "new", narrow)


def wrong_clean_ups(folder: Path) -> None:
    theirs, ours = both(folder)
    config = {"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.retain_versions": "0"}
    theirs.update_config(config)
    theirs.insert(ROWS)
    assert [each["version"] for each in theirs.versions()] == [1, 2, 3]
    with pytest.raises(lance_df.InvalidInputError, match="retain_versions"):
        ours.update_config(config)


def names_of_clones(folder: Path) -> None:
    theirs, ours = both(folder)
    for dataset in (theirs, ours):
        dataset.deep_clone(str(folder / "clone"), dataset.version)
        source, clone = (
            {path.name for path in Path(uri).glob("data/*.lance")} for uri in (dataset.uri, folder / "clone")
        )
        assert (source == clone) == (dataset is theirs)
        shutil.rmtree(folder / "clone")


DIFFERENCES = [
    Difference("vectors, full text", "search and indices", "refused with `UnsupportedFeatureError`", vectors),
    Difference(
        "scalar indices",
        "builds all",
        "builds and uses B-trees, bitmaps, zone maps and Bloom filters",
        scalar_indices,
    ),
    Difference(
        "`rows_per_zone` of zone maps, smaller than a page",
        "only zones that may match are read",
        "whole [pages](how_queries_prune.md) with such zones are read",
        small_zones,
    ),
    Difference(
        "the environment variable `LANCE_MEM_POOL_SIZE`",
        "limits the memory for sorting the values of an index",
        "has no effect",
        memory_pools,
    ),
    Difference(
        "`memory://`",
        "each write has a store of its own, which no name leads to",
        "a name may be created again, and datasets of the older table keep it; the name opens the newer one",
        memory,
    ),
    Difference(
        "pyarrow filters",
        "what Substrait can say",
        "all row by row functions of pyarrow, in scans, counts, `delete`, `update` and `get_fragments`; only "
        "what compares columns with values prunes",
        pyarrow_filters,
    ),
    Difference(
        "positions in pyarrow filters, as `pc.field(0)`",
        "mean the same as names",
        "Arrow evaluates the whole filter, for which NaN is not greater than a number; it does not prune",
        positions_in_filters,
    ),
    Difference(
        "`IN` lists of floats",
        "-0.0 is 0.0",
        "as in DataFusion: of 16 and 32 bits, and in lists of four and more doubles, -0.0 is another value",
        zeros_in_lists,
    ),
    Difference(
        "`data_storage_version` of merges and compaction",
        "files of another version",
        "refused; an append may write another 2.x version",
        other_file_versions,
    ),
    Difference(
        "tables of 2.0 files that release 0.16 recorded as 0.1",
        "refuses appends and updates until another commit, as `delete('false')`, records 2.0",
        "each commit records 2.0, and writes 2.0 files",
        wrong_file_versions,
    ),
    Difference(
        "`get_fragments(filter)`",
        "refused",
        "the fragments that may hold such rows, by statistics and indices",
        fragments_by_filter,
    ),
    Difference(
        "`session()`",
        "a cache for each session",
        "one cache for the process; `lance_df.set_cache_bytes`",
        sessions,
    ),
    Difference("`explain_plan`, `analyze_plan`", "DataFusion's plan", "what is read, and why", plans),
    Difference("order of rows", "`scan_in_order`", "always the order of the table", order),
    Difference(
        "compaction with a small `max_bytes_per_file`",
        "writes fragments anew that it cannot make larger",
        "leaves them",
        compaction_by_bytes,
    ),
    Difference(
        "`max_page_bytes` of files from 2.1 on",
        "has no effect",
        "pages are no larger",
        page_sizes,
    ),
    Difference(
        "JSON columns",
        "paths may have filters, and `**`",
        "the same functions (`json_get_int` …), without these",
        json_columns,
    ),
    Difference(
        "NaN, Infinity and too large numbers in JSON",
        "stored; their text is `null`",
        "read as pylance does; refused when written",
        json_numbers,
    ),
    Difference(
        "`merge_insert` by JSON keys",
        "no keys match, so rows are inserted again, or deleted as not matched",
        "equal documents match",
        merges_by_json,
    ),
    Difference("JSON nested deeper than 200 levels", "read", "refused", deep_json),
    Difference(
        "columns nested deeper than 62 levels",
        "written, and no table that has them is read with pyarrow",
        "refused when written",
        deep_columns,
    ),
    Difference(
        "fixed-size lists of structs within structs (2.2)",
        "written; beside other fields of the struct, only lists of size 1 are read again",
        "read; refused when written",
        lists_of_structs_in_structs,
    ),
    Difference(
        "dictionaries of batches that have more values than their indices can number",
        "refused (2.0), or written to a file that is not read (2.1, 2.2)",
        "tables begin another file, also in compactions and updates; single files and new columns are "
        "refused",
        many_dictionary_values,
    ),
    Difference(
        "names of columns for `create_scalar_index`",
        "in any case, where one column is meant",
        "as written in the schema",
        names_of_indexed_columns,
    ),
    Difference(
        "strings that are not UTF-8",
        "written, and no string of their page is read again",
        "refused when written",
        texts_without_utf8,
    ),
    Difference(
        "values of `lance.auto_cleanup.…` that clean-ups cannot use, for `update_config`",
        "stored; each commit warns",
        "refused",
        wrong_clean_ups,
    ),
    Difference(
        "a commit of a dataset whose version was cleaned up",
        "goes on, without looking at what was committed since",
        "refused with `ConflictError`; open the table again. Appends, overwrites, and changes of "
        "configuration or metadata go on",
        stale_datasets,
    ),
    Difference(
        "file names of `deep_clone`",
        "those of the source",
        "new ones, so that no other writer has files of these names",
        names_of_clones,
    ),
    Difference(
        "types of SQL expressions",
        "a number beside an operator takes the type of the column, and the result may overflow: `u8 * 2` is "
        "`uint8`, `f32 * 2.5` is `float`, `d + 1` of a `decimal128(5, 2)` is a `decimal128(6, 2)`",
        "as in DataFusion a number is `int64` or `double`: `u8 * 2` is `int64`, `u64 * 2` is a decimal, "
        "`f32 * 2.5` is `double`, `d + 1` is a `decimal128(23, 2)`; `CAST` gives another type",
        types_of_expressions,
    ),
    Difference("`dataset(version=…, asof=…)`", "`asof` has no effect", "refused", version_and_time),
    Difference(
        "`delta(…)` of rows in a table without stable row ids",
        "no rows",
        "refused with `UnsupportedFeatureError`",
        delta_without_row_ids,
    ),
    Difference(
        "`write_dataset(table, schema=…)` of Arrow data",
        "`schema` has no effect",
        "casts to it, in its order of columns; it has to have all columns of the data",
        schema_of_arrow_data,
    ),
    Difference(
        "log, tracing",
        "there are some",
        "the logger `lance_df`; `SessionContext.explain_scan` says what a query reads",
        logs,
    ),
]


def rendered() -> str:
    """Return the rows as they are in the guide."""
    lines = ["| | pylance | lance_df |", "|---|---|---|"]
    lines += [f"| {each.what} | {each.theirs} | {each.ours} |" for each in DIFFERENCES]
    return "\n".join(lines) + "\n"


def _in_guide() -> re.Match[str]:
    found = re.search(r"(?<=^## What differs\n\n)(?:^\|.*\n)+", GUIDE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda difference: difference.what)
def test_both_sides(tmp_path: Path, difference: Difference) -> None:
    difference.shows(tmp_path)


def test_the_guide_has_these_rows() -> None:
    assert _in_guide().group() == rendered()


if __name__ == "__main__":
    text = GUIDE.read_text("utf-8")
    GUIDE.write_text(text.replace(_in_guide().group(), rendered()), "utf-8")
