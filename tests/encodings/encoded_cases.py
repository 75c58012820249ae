"""The five tests of each encoding: columns that it is written for, and what reads and writes them."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.plan import RowRange, Rows
from lance_df.file import LanceFileWriter
from lance_df.file.describe import describe_file
from lance_df.file.open import open_file
from lance_df.storage import MappedSource
from tests.file.damage import assert_damage_is_noticed, damages

MANY = 6000
EDGES = (0, 1, 7, 8, 9, 64, 65, 256, 1023, 1024, 1025, 4097)


@dataclass(frozen=True)
class Case:
    """A column that writers store in an encoding.

    Attributes
    ----------
    values
        Returns so many values, by a source of randomness.
    encodings
        For each version that has it, what the description of a page of many values says.
    metadata
        Of the field, without the prefix ``lance-encoding:``.
    ours
        What it says if our writer stores such a column otherwise.
    stored
        Returns the values of what a reader of the file returns.
    """

    name: str
    values: Callable[[int, random.Random], pa.Array]
    encodings: Mapping[str, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    ours: str | None = None
    stored: Callable[[pa.Array, Path], pa.Array] = lambda array, _: array

    def table(self, count: int, seed: int = 1) -> pa.Table:
        array = self.values(count, random.Random(seed))
        assert len(array) == count
        metadata = {f"lance-encoding:{key}": value for key, value in self.metadata.items()}
        return pa.table([array], schema=pa.schema([pa.field("c", array.type, metadata=metadata)]))


def write_ours(path: Path, table: pa.Table, version: str) -> None:
    if version == "0.1":
        _write_legacy(path, table, "lance_df")
        return
    with LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)


def write_theirs(path: Path, table: pa.Table, version: str) -> None:
    if version == "0.1":
        _write_legacy(path, table, "lance")
        return
    with lance.file.LanceFileWriter(str(path), table.schema, version=version) as writer:
        writer.write_batch(table)


def _write_legacy(path: Path, table: pa.Table, package: str) -> None:
    """Write a table of one file, and move the file."""
    from importlib import import_module

    with tempfile.TemporaryDirectory() as folder:
        import_module(package).write_dataset(table, f"{folder}/t", data_storage_version="0.1")
        [written] = Path(folder, "t", "data").iterdir()
        written.rename(path)


def read_ours(path: Path, rows: Rows | None = None) -> pa.Array:
    reader = open_file(MappedSource(str(path)))
    [array] = reader.read(reader.schema.fields, RowRange(0, reader.num_rows) if rows is None else rows)
    return array


def read_theirs(path: Path, table: pa.Table, version: str) -> pa.Array:
    """Return what pylance reads of a file, in one array."""
    if version == "0.1":
        read = _read_legacy(path, table)
    else:
        read = lance.file.LanceFileReader(str(path)).read_all(batch_size=10_000).to_table()
    column = read.column("c")
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _read_legacy(path: Path, table: pa.Table) -> pa.Table:
    """Read a file as the only one of a table."""
    with tempfile.TemporaryDirectory() as folder:
        written = lance.write_dataset(table, f"{folder}/t", data_storage_version="0.1")
        [other] = Path(folder, "t", "data").iterdir()
        other.write_bytes(path.read_bytes())
        del written
        return lance.dataset(f"{folder}/t").to_table()


def encodings_of(path: Path) -> str:
    columns = describe_file(MappedSource(str(path))).columns
    return " ".join(page.encoding for column in columns for page in column.pages)


def assert_equal(found: pa.Array, expected: pa.ChunkedArray | pa.Array, case: Case, path: Path) -> None:
    found = case.stored(found, path)
    if isinstance(expected, pa.ChunkedArray):
        expected = expected.combine_chunks()
    found.validate(full=True)
    assert found.type == expected.type
    assert len(found) == len(expected)
    assert _comparable(found) == _comparable(expected)


def _comparable(array: pa.Array) -> list[Any]:
    # NaN is itself here
    return [repr(value) for value in array.to_pylist()]


def five_tests(cases: Sequence[Case]) -> dict[str, Any]:
    """Return the tests of an encoding by their names, for the module of its tests."""
    parameters = [
        pytest.param(case, version, id=f"{case.name}-{version}")
        for case in cases
        for version in case.encodings
    ]
    each = pytest.mark.parametrize(("case", "version"), parameters)

    @each
    @settings(max_examples=8)
    @given(st.integers(0, 2100), st.integers(0, 2**32), st.data())
    def test_round_trip(case: Case, version: str, count: int, seed: int, data: st.DataObject) -> None:
        table = case.table(count if version != "0.1" else max(count, 1), seed)
        count = table.num_rows
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "f.lance")
            write_ours(path, table, version)
            column = table.column("c")
            assert_equal(read_ours(path), column, case, path)
            start = data.draw(st.integers(0, count))
            stop = data.draw(st.integers(start, count))
            assert_equal(read_ours(path, RowRange(start, stop)), column[start:stop], case, path)
            if count:
                chosen = sorted(data.draw(st.sets(st.integers(0, count - 1), max_size=20)))
                rows = np.array(chosen, np.int64)
                assert_equal(read_ours(path, rows), column.take(pa.array(rows)), case, path)

    @each
    def test_bytes_of_pylance(case: Case, version: str, tmp_path: Path) -> None:
        table, path = case.table(MANY), tmp_path / "f.lance"
        write_theirs(path, table, version)
        assert case.encodings[version] in encodings_of(path)
        assert_equal(read_ours(path), table.column("c"), case, path)
        rows = np.arange(3, MANY, 37)
        assert_equal(read_ours(path, rows), table.column("c").take(pa.array(rows)), case, path)

    @each
    def test_read_by_pylance(case: Case, version: str, tmp_path: Path) -> None:
        table, path = case.table(MANY), tmp_path / "f.lance"
        write_ours(path, table, version)
        assert (case.ours or case.encodings[version]) in encodings_of(path)
        assert_equal(read_theirs(path, table, version), table.column("c"), case, path)

    @each
    @settings(max_examples=12)
    @given(st.booleans(), st.lists(damages(), min_size=1, max_size=3))
    def test_damaged_bytes(case: Case, version: str, is_ours: bool, damage: list[Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "f.lance")
            (write_ours if is_ours else write_theirs)(path, case.table(1500), version)
            content = path.read_bytes()
            for each_damage in damage[:-1]:
                content = each_damage.apply(content) or content
            assert_damage_is_noticed(content, damage[-1], path)

    @each
    def test_sizes_at_the_edges(case: Case, version: str, tmp_path: Path) -> None:
        for number, (count, is_ours) in enumerate(_edges(version)):
            table, path = case.table(count, number), tmp_path / f"{number}.lance"
            (write_ours if is_ours else write_theirs)(path, table, version)
            assert_equal(read_ours(path), table.column("c"), case, path)
            if is_ours:
                assert_equal(read_theirs(path, table, version), table.column("c"), case, path)

    found = (test_round_trip, test_bytes_of_pylance, test_read_by_pylance, test_damaged_bytes)
    return {test.__name__: test for test in (*found, test_sizes_at_the_edges)}


def _edges(version: str) -> Iterator[tuple[int, bool]]:
    for count in EDGES:
        if count or version != "0.1":  # a table of no rows has no file there
            yield count, True
            yield count, False
