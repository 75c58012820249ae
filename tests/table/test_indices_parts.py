"""The parts of index reading: row sets, hashes, damaged files, what is read and what is kept open."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import fsspec
import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from lance_df.errors import CorruptDataError, LanceError
from lance_df.expr.nodes import Column, Comparison, In, Operator, Predicate
from lance_df.table.indices import btree as btree_module
from lance_df.table.indices import prune
from lance_df.table.indices.row_address_map import MAX_RANGES, parse_row_address_map
from lance_df.table.open import open_table


def row_set(*parts: tuple[int, BitMap | None]) -> bytes:
    data = [low.serialize() if low is not None else b"" for _, low in parts]
    entries = [struct.pack("<II", high, len(low)) + low for (high, _), low in zip(parts, data, strict=True)]
    return struct.pack("<I", len(parts)) + b"".join(entries)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.integers(0, 5), st.sets(st.integers(0, 2**32 - 1) | st.integers(65530, 65540)), max_size=3
    )
)
def test_row_sets(parts: dict[int, set[int]]) -> None:
    data = row_set(*((high, BitMap(low)) for high, low in sorted(parts.items())))
    expected = sorted((high << 32) + low for high, lows in parts.items() for low in lows)
    assert parse_row_address_map(data, source="f").positions().tolist() == expected


def test_row_sets_of_runs_stay_small() -> None:
    everything = BitMap(range(2**32))
    everything.run_optimize()
    ranges = parse_row_address_map(row_set((3, everything), (4, None)), source="f")
    assert ranges.bounds.tolist() == [[3 << 32, 5 << 32]]
    scattered = BitMap(range(0, 4 * MAX_RANGES, 2))
    assert parse_row_address_map(row_set((0, scattered)), source="f") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\1\0\0",
        struct.pack("<I", 2**32 - 1),
        row_set((0, BitMap([1])))[:-1],
        row_set((0, BitMap([1]))) + b"x",
        struct.pack("<III", 1, 0, 2**32 - 1),
        struct.pack("<IIII", 1, 0, 4, 12345),
        row_set((2**31, BitMap([1]))),
    ],
)
def test_broken_row_sets(data: bytes) -> None:
    with pytest.raises(CorruptDataError, match="some file"):
        parse_row_address_map(data, source="some file")


def equal(name: str, value: object, data_type: pa.DataType) -> Predicate:
    return Comparison(Column((name,)), Operator.EQ, pa.scalar(value, data_type))


def build(path: Path, kind: str, num_rows: int = 2000) -> Path:
    """Build a table with one index, and return the folder of the index."""
    table = pa.table({"s": [f"k{number:07}" for number in range(num_rows)]})
    lance.write_dataset(table, path, max_rows_per_file=num_rows // 2).create_scalar_index("s", kind)
    (folder,) = (path / "_indices").iterdir()
    return folder


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def test_missing_and_cut_files_are_named(kind: str, tmp_path: Path) -> None:
    folder = build(tmp_path / "t.lance", kind)
    for file in sorted(folder.iterdir()):
        data = file.read_bytes()
        for damaged in (None, b"", data[:-1], data[: len(data) // 2], data[: -len(data) // 2] + data[-40:]):
            copy = tmp_path / "copy.lance"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(tmp_path / "t.lance", copy)
            target = copy / "_indices" / folder.name / file.name
            target.unlink()
            if damaged is not None:
                target.write_bytes(damaged)
            with pytest.raises(CorruptDataError, match=file.name):
                prune(open_table(copy), equal("s", "k0001234", pa.string()), [0, 1])


@pytest.fixture(scope="module", params=["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
def damageable(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, list[Path]]:
    path = tmp_path_factory.mktemp("damage") / "t.lance"
    folder = build(path, request.param)
    return path, sorted(folder.iterdir())


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damage_gives_typed_errors(damageable: tuple[Path, list[Path]], data: st.DataObject) -> None:
    path, files = damageable
    file = data.draw(st.sampled_from(files))
    original = file.read_bytes()
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(1, 4))):
        # the tables at the end decide more than the values before them
        reach = data.draw(st.sampled_from([40, 400, len(damaged)]))
        position = len(damaged) - 1 - data.draw(st.integers(0, min(reach, len(damaged)) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    try:
        file.write_bytes(bytes(damaged))
        prune(open_table(path), equal("s", "k0001234", pa.string()), [0, 1])
    except LanceError as err:
        assert file.name in str(err)  # noqa: PT017 - success is fine, too
    finally:
        file.write_bytes(original)


def test_a_lookup_reads_few_pages(tmp_path: Path) -> None:
    build(tmp_path / "t.lance", "BTREE", num_rows=200_000)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "t.lance"), "/lookup/t.lance", recursive=True)
    sizes = {Path(name).name: info["size"] for name, info in memory.find("/lookup", detail=True).items()}
    read: dict[str, int] = {}
    cat_file = type(memory).cat_file

    def counting(
        self: object, path: str, start: int | None = None, end: int | None = None, **options: object
    ) -> bytes:
        result: bytes = cat_file(memory, path, start=start, end=end, **options)
        read[Path(path).name] = read.get(Path(path).name, 0) + len(result)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(memory), "cat_file", counting)
        result = prune(open_table("memory://lookup/t.lance"), equal("s", "k0123456", pa.string()), [0, 1])
    memory.rm("/lookup", recursive=True)
    assert result.rows(0).num_rows == 0
    assert result.rows(1).positions().tolist() == [23_456]
    assert 0 < read["page_data.lance"] < sizes["page_data.lance"] / 8


def test_lookups_that_select_much_are_left_to_the_scan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(tmp_path / "t.lance", "BTREE", num_rows=20_000)
    table = open_table(tmp_path / "t.lance")
    many = Comparison(Column(("s",)), Operator.GE, pa.scalar("k0004000"))
    few = Comparison(Column(("s",)), Operator.LT, pa.scalar("k0004000"))
    assert prune(table, many, [0, 1]).is_exact
    monkeypatch.setattr(btree_module, "_MIN_ROWS", 0)
    assert prune(table, many, [0, 1]).rows(0) is None
    assert prune(table, few, [0, 1]).rows(0).num_rows == 4000


def test_bitmaps_of_most_values_are_left_to_the_scan(tmp_path: Path) -> None:
    build(tmp_path / "t.lance", "BITMAP")
    table = open_table(tmp_path / "t.lance")
    listed = pa.array([f"k{number:07}" for number in range(1500)])
    assert prune(table, In(Column(("s",)), listed), [0, 1]).rows(0) is None
    assert prune(table, In(Column(("s",)), listed[:900]), [0, 1]).rows(0).num_rows == 900


def test_coverage_that_is_unknown_or_gone_is_not_used(tmp_path: Path) -> None:
    from lance_df.table.indices.segments import segments_by_index

    path = tmp_path / "t.lance"
    build(path, "ZONEMAP")
    table = open_table(path)
    field = table.schema.field("s")
    assert list(segments_by_index(table, field, np.array([0, 1]))) == ["s_idx"]
    assert segments_by_index(table, field, np.array([7])) == {}

    class Without:
        """The table, but with other index entries."""

        def __init__(self, **changes: object) -> None:
            import dataclasses

            self.indices = tuple(dataclasses.replace(entry, **changes) for entry in table.indices)

        def __getattr__(self, name: str) -> object:
            return getattr(table, name)

    def usable(**changes: object) -> bool:
        return bool(segments_by_index(Without(**changes), field, np.array([0, 1])))  # type: ignore[arg-type]

    assert usable()
    assert usable(details_type_url="type.googleapis.com/x.y.ZONEMAPindexDetails")
    assert not usable(fragment_bitmap=None)
    assert not usable(details_type_url="/lance.table.InvertedIndexDetails")
    assert not usable(details_type_url=None)
    assert usable(details_type_url=None, files=(("page_lookup.lance", 1), ("page_data.lance", 1)))
    assert not usable(fields=(0, 1))
    with pytest.raises(CorruptDataError):
        usable(fragment_bitmap=b"\1\2\3")
