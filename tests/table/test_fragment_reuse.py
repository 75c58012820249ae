"""Tables that pylance compacted with ``defer_index_remap``: indices hold former row addresses."""

from __future__ import annotations

import dataclasses
import random
import uuid
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyroaring import BitMap

import lance_df
from lance_df._pb import table_pb2
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.fragment_reuse import FRAGMENT_REUSE, FragmentReuse
from lance_df.format.manifest import IndexMetadata
from lance_df.table.metadata.base_paths import BasePaths
from lance_df.table.metadata.index_coverage import fragment_reuse
from lance_df.table.open import open_table

KINDS = ("BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER")
LIBRARIES = (lance_df, lance)


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "id": range(start, stop),
            "v": [row // 10 for row in range(start, stop)],
            "w": [f"word{row // 10}" for row in range(start, stop)],
        }
    )


def make(folder: Path, kind: str, *, text: bool = False) -> str:
    """Make a table whose index was left as it was by a compaction of fragments 0 to 3 into 4."""
    uri = str(folder / "table")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("v", kind)
    if text:
        lance.dataset(uri).create_scalar_index("w", "INVERTED")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
    return uri


def append(uri: str, library: Any, start: int = 40) -> None:
    library.write_dataset(rows(start, start + 10), uri, mode="append")


def counts(uri: str, condition: str) -> list[int]:
    """Return the number of rows in both libraries."""
    return [library.dataset(uri).count_rows(condition) for library in LIBRARIES]


def coverage(uri: str) -> dict[str, set[int]]:
    return {index["name"]: index["fragment_ids"] for index in lance_df.dataset(uri).list_indices()}


@pytest.mark.parametrize("writer", LIBRARIES)
@pytest.mark.parametrize("kind", KINDS)
def test_all_rows_are_returned(tmp_path: Path, kind: str, writer: Any) -> None:
    uri = make(tmp_path, kind)
    assert counts(uri, "v = 2") == [10, 10]
    append(uri, writer)
    assert counts(uri, "v = 2") == [10, 10]
    assert coverage(uri) == {"v_idx": set()}
    assert lance_df.dataset(uri).delete("v = 2")["num_deleted_rows"] == 10
    assert counts(uri, "v = 2") == [0, 0]


@pytest.mark.parametrize("merged", [None, 0, 1])
@pytest.mark.parametrize("kind", KINDS)
def test_optimized_indices_are_used_again(tmp_path: Path, kind: str, merged: int | None) -> None:
    uri = make(tmp_path, kind)
    append(uri, lance)
    lance_df.dataset(uri).optimize.optimize_indices(num_indices_to_merge=merged)
    ds = lance_df.dataset(uri)
    assert coverage(uri) == {"v_idx": {4, 5}}
    assert [counts(uri, f"v = {value}") for value in range(5)] == [[10, 10]] * 5
    assert "v_idx" in ds.scanner(filter="v = 2").explain_plan()
    ds.optimize.optimize_indices()
    assert lance_df.dataset(uri).version == ds.version  # nothing was left to do
    ds.optimize.compact_files()
    lance.dataset(uri).delete("id = 3")
    assert [counts(uri, f"v = {value}") for value in range(5)] == [[9, 9], *[[10, 10]] * 4]


def test_the_coverage_of_other_fragments_stays(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    lance.write_dataset(rows(0, 40), uri, max_rows_per_file=10)
    lance.write_dataset(rows(40, 2040), uri, mode="append")
    lance.dataset(uri).create_scalar_index("v", "BTREE")
    lance.dataset(uri).optimize.compact_files(defer_index_remap=True, target_rows_per_fragment=1000)
    append(uri, lance, 2040)
    assert coverage(uri) == {"v_idx": {4}}
    assert "v_idx" in lance_df.dataset(uri).scanner(filter="v = 100").explain_plan()
    # the compaction of fragment 4 has the addresses of its rows, but not those of the rows moved before
    lance_df.dataset(uri).delete("id >= 100 AND id % 2 = 0")
    lance_df.dataset(uri).optimize.compact_files(target_rows_per_fragment=30)
    append(uri, lance, 2050)
    for value in (2, 4, 100, 204, 205):
        assert len(set(counts(uri, f"v = {value}"))) == 1
    assert counts(uri, "v = 2") == [10, 10]
    assert counts(uri, "v = 100") == [5, 5]


def test_values_replaced_in_place_do_not_come_back(tmp_path: Path) -> None:
    """pylance covers the new fragments in the commit after the compaction, here one that changes values."""
    uri = make(tmp_path, "BTREE")
    (fragment,) = lance_df.dataset(uri).get_fragments()
    new = pa.table({"id": range(40), "v": [9] * 40})
    updated, fields = fragment.update_columns(new, left_on="id")
    operation = lance_df.LanceOperation.Update(updated_fragments=[updated], fields_modified=fields)
    lance_df.LanceDataset.commit(uri, operation, read_version=lance_df.dataset(uri).version)
    append(uri, lance)
    assert counts(uri, "v = 9") == [40, 40]
    assert counts(uri, "v = 2") == [0, 0]


@pytest.mark.parametrize("seed", range(6))
def test_both_libraries_go_on(tmp_path: Path, seed: int) -> None:
    """Histories with further deferred compactions, in which each library changes the other's table."""
    chosen = random.Random(seed)
    uri = make(tmp_path, KINDS[seed % 4], text=True)
    values = {row: row // 10 for row in range(40)}
    for _ in range(6):
        library = chosen.choice(LIBRARIES)
        ds = library.dataset(uri)
        match chosen.choice(["append", "delete", "update", "compact", "defer", "optimize"]):
            case "append":
                start = max(values, default=0) + 1
                append(uri, library, start)
                values |= {row: row // 10 for row in range(start, start + 10)}
            case "delete":
                ds.delete("v = 1 AND id % 3 = 0")
                values = {row: value for row, value in values.items() if value != 1 or row % 3}
            case "update":
                ds.update({"v": "1"}, where="v = 2")
                values = {row: 1 if value == 2 else value for row, value in values.items()}
            case "compact":
                # pylance's own compaction loses texts of rows that moved before
                lance_df.dataset(uri).optimize.compact_files()
            case "defer":
                lance.dataset(uri).optimize.compact_files(defer_index_remap=True)
            case "optimize":
                ds.optimize.optimize_indices()
        for value in range(6):
            expected = list(values.values()).count(value)
            assert counts(uri, f"v = {value}") == [expected, expected]
            texts = lance.dataset(uri).to_table(full_text_query=f"word{value}")["id"].to_pylist()
            assert sorted(texts) == [row for row in values if row // 10 == value]


def entry(details: table_pb2.FragmentReuse, **changes: Any) -> IndexMetadata:
    made = IndexMetadata(
        uuid=uuid.UUID(int=1),
        fields=(),
        name=FRAGMENT_REUSE,
        dataset_version=1,
        details=details.SerializeToString(),
    )
    return dataclasses.replace(made, **changes)


def two_compactions() -> table_pb2.FragmentReuse.Content:
    content = table_pb2.FragmentReuse.Content()
    for version, old, new in ((3, (0, 1), (2,)), (5, (2, 7), (8,))):
        group = content.versions.add(dataset_version=version).groups.add()
        for fragment_id in old:
            group.old_fragments.add(id=fragment_id)
        for fragment_id in new:
            group.new_fragments.add(id=fragment_id)
    return content


@pytest.mark.parametrize(
    ("version", "covered", "advanced", "current"),
    [
        (1, (0, 1, 7, 9), (8, 9), (9,)),
        (1, (0, 7, 9), (9,), (9,)),  # no group was covered as a whole
        (4, (2, 9), (9,), (9,)),
        (4, (2, 7), (8,), ()),
        (6, (8, 9), (8, 9), (8, 9)),
    ],
)
def test_coverage(
    version: int, covered: tuple[int, ...], advanced: tuple[int, ...], current: tuple[int, ...]
) -> None:
    reuse = FragmentReuse.parse(
        entry(table_pb2.FragmentReuse(inline=two_compactions())), lambda *_: b"", source="m"
    )
    index = IndexMetadata(
        uuid=uuid.UUID(int=2),
        fields=(1,),
        name="v_idx",
        dataset_version=version,
        fragment_bitmap=BitMap(covered).serialize(),
    )
    assert reuse.advanced(index).covered_fragments() == BitMap(advanced)
    assert reuse.with_current_rows(index).covered_fragments() == BitMap(current)


def test_long_details_are_in_a_file() -> None:
    content = two_compactions().SerializeToString()
    file = table_pb2.FragmentReuse.File(path="details.binpb", offset=2, size=len(content))
    external = entry(table_pb2.FragmentReuse(external=file))
    reuse = FragmentReuse.parse(external, lambda _, name: b"xx" + content + name.encode(), source="m")
    assert [version for version, _ in reuse.compactions] == [3, 5]
    with pytest.raises(CorruptDataError, match="expected"):
        FragmentReuse.parse(external, lambda *_: content, source="m")


def test_details_that_cannot_be_read() -> None:
    with pytest.raises(CorruptDataError, match="no details"):
        FragmentReuse.parse(entry(table_pb2.FragmentReuse()), lambda *_: b"", source="m")
    wide = table_pb2.FragmentReuse()
    wide.inline.versions.add().groups.add().old_fragments.add(id=1 << 40)
    with pytest.raises(CorruptDataError, match="32 bits"):
        FragmentReuse.parse(entry(wide), lambda *_: b"", source="m")
    with pytest.raises(UnsupportedFeatureError, match="version 1"):
        FragmentReuse.parse(entry(wide, index_version=1), lambda *_: b"", source="m")


def test_a_missing_file_of_details(tmp_path: Path) -> None:
    table = open_table(make(tmp_path, "BTREE"))
    bases = BasePaths(table.location, (), source=table.uri)
    file = table_pb2.FragmentReuse.File(path="details.binpb", size=1)
    indices = [entry(table_pb2.FragmentReuse(external=file))]
    with pytest.raises(CorruptDataError, match=r"details\.binpb: this file is missing"):
        fragment_reuse(table.manifest_file, indices, bases)
